//! Ballista's codecs, which ask ours for the tables, scans and functions that they do not know.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use ballista_core::serde::{BallistaLogicalExtensionCodec, BallistaPhysicalExtensionCodec};
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, TableReference};
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, Extension, LogicalPlan, ScalarUDF};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use trace_sql::remote::Codec;

/// What a client sends to the scheduler.
#[derive(Debug)]
pub(crate) struct Logical {
    codec: Arc<Codec>,
    ballista: BallistaLogicalExtensionCodec,
}

/// What the scheduler sends to executors.
#[derive(Debug)]
pub(crate) struct Physical {
    codec: Arc<Codec>,
    ballista: BallistaPhysicalExtensionCodec,
}

impl Logical {
    pub(crate) fn new(codec: &Arc<Codec>) -> Self {
        Self {
            codec: Arc::clone(codec),
            ballista: BallistaLogicalExtensionCodec::default(),
        }
    }
}

impl Physical {
    pub(crate) fn new(codec: &Arc<Codec>) -> Self {
        Self {
            codec: Arc::clone(codec),
            ballista: BallistaPhysicalExtensionCodec::default(),
        }
    }
}

impl LogicalExtensionCodec for Logical {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[LogicalPlan],
        ctx: &TaskContext,
    ) -> Result<Extension> {
        self.ballista.try_decode(buf, inputs, ctx)
    }

    fn try_encode(&self, node: &Extension, buf: &mut Vec<u8>) -> Result<()> {
        self.ballista.try_encode(node, buf)
    }

    fn try_decode_table_provider(
        &self,
        buf: &[u8],
        table: &TableReference,
        schema: SchemaRef,
        ctx: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        match Codec::is_message(buf) {
            true => self.codec.decode_table(buf),
            false => self
                .ballista
                .try_decode_table_provider(buf, table, schema, ctx),
        }
    }

    fn try_encode_table_provider(
        &self,
        _: &TableReference,
        node: Arc<dyn TableProvider>,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        self.codec.encode_table(node.as_ref(), buf)
    }

    fn try_decode_file_format(
        &self,
        buf: &[u8],
        ctx: &TaskContext,
    ) -> Result<Arc<dyn FileFormatFactory>> {
        self.ballista.try_decode_file_format(buf, ctx)
    }

    fn try_encode_file_format(
        &self,
        buf: &mut Vec<u8>,
        node: Arc<dyn FileFormatFactory>,
    ) -> Result<()> {
        self.ballista.try_encode_file_format(buf, node)
    }

    fn try_decode_udf(&self, name: &str, buf: &[u8]) -> Result<Arc<ScalarUDF>> {
        match Codec::is_message(buf) {
            true => self.codec.decode_function(name, buf),
            false => self.ballista.try_decode_udf(name, buf),
        }
    }

    fn try_encode_udf(&self, node: &ScalarUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.codec.encode_function(node, buf)
    }

    fn try_decode_udaf(&self, name: &str, buf: &[u8]) -> Result<Arc<AggregateUDF>> {
        match Codec::is_message(buf) {
            true => self.codec.decode_aggregate(buf),
            false => self.ballista.try_decode_udaf(name, buf),
        }
    }

    fn try_encode_udaf(&self, node: &AggregateUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.codec.encode_aggregate(node, buf)
    }
}

impl PhysicalExtensionCodec for Physical {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match Codec::is_message(buf) {
            true => self.codec.decode_scan(buf),
            false => self.ballista.try_decode(buf, inputs, ctx, converter),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        match self.codec.encode_scan(node.as_ref(), buf) {
            Some(written) => written,
            None => self.ballista.try_encode(node, buf, converter),
        }
    }

    fn try_decode_udf(&self, name: &str, buf: &[u8]) -> Result<Arc<ScalarUDF>> {
        match Codec::is_message(buf) {
            true => self.codec.decode_function(name, buf),
            false => self.ballista.try_decode_udf(name, buf),
        }
    }

    fn try_encode_udf(&self, node: &ScalarUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.codec.encode_function(node, buf)
    }

    fn try_decode_udaf(&self, name: &str, buf: &[u8]) -> Result<Arc<AggregateUDF>> {
        match Codec::is_message(buf) {
            true => self.codec.decode_aggregate(buf),
            false => self.ballista.try_decode_udaf(name, buf),
        }
    }

    fn try_encode_udaf(&self, node: &AggregateUDF, buf: &mut Vec<u8>) -> Result<()> {
        self.codec.encode_aggregate(node, buf)
    }
}
