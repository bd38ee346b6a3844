"""Critical path of one annotation by HolisticTraceAnalysis: python3 peer_path.py FILE [ANNOTATION [INSTANCE]].

Needs `pip install HolisticTraceAnalysis 'pandas<2.2'`: its critical path fails with pandas 3.
"""

import os
import sys

from hta.trace_analysis import TraceAnalysis

path = os.path.abspath(sys.argv[1])
annotation = sys.argv[2] if len(sys.argv) > 2 else "step"
instance = int(sys.argv[3]) if len(sys.argv) > 3 else 1
analysis = TraceAnalysis(trace_files={0: path}, trace_dir=os.path.dirname(path))
graph, done = analysis.critical_path_analysis(0, annotation, instance)
if not done:
    sys.exit("no critical path")
edges = graph.critical_path_edges_set
print("path", sum(edge.weight for edge in edges), "us,", len(edges), "edges")
print(graph.summary())
