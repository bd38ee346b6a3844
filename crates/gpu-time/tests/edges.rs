//! Ends of steps, and names that are written twice.

mod support;

use gpu_time::{
    GpuWork, KernelOptions, KernelsBy, Roles, Rules, Split, StepRule, kernels, split, steps,
};
use support::{Maker, Value};

#[test]
fn a_step_that_ends_where_work_starts_does_not_have_it() {
    let mut maker = Maker::new();
    maker.host((0, 100), "user_annotation", "ProfilerStep#1", &[]);
    maker.kernel(7, (40, 10), "inside", &[]);
    maker.kernel(7, (100, 50), "after", &[]);
    let trace = maker.finish();
    let work = GpuWork::new(&trace);
    let mut how = Split::default();
    how.steps = Some(steps(&work, None));
    how.step_rule = StepRule::Time;
    let parts = split(
        &work,
        &mut Roles::new(&work, Rules::Exact),
        work.events(),
        &how,
    );
    let found: Vec<_> = parts.iter().map(|p| (p.step, p.time.kernels)).collect();
    assert_eq!(found, [(Some(0), 1), (None, 1)]);
}

#[test]
fn a_module_that_is_written_twice_in_a_row_is_one() {
    let mut maker = Maker::new();
    for (at, ns, name) in [
        (0, 100, "nn.Module: Model_0"),
        (1, 98, "nn.Module: Layer_3"),
        (2, 96, "nn.Module: Layer_3"),
        (3, 94, "nn.Module: Layer_4"),
    ] {
        maker.host((at, ns), "python_function", name, &[]);
    }
    let id = [("correlation", Value::Int(1))];
    maker.host((10, 5), "cuda_runtime", "cudaLaunchKernel", &id);
    maker.kernel(7, (30, 10), "gemm", &id);
    let trace = maker.finish();
    let work = GpuWork::new(&trace);
    let mut options = KernelOptions::default();
    options.by = KernelsBy::Module;
    let found = kernels(&work, work.events(), &options);
    assert_eq!(found.groups[0].name, "Model/Layer/Layer");
    options.numbered = true;
    let found = kernels(&work, work.events(), &options);
    assert_eq!(found.groups[0].name, "Model_0/Layer_3/Layer_4");
}
