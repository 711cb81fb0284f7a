// Each enum whose values a file names has the names that the schema allows, and the numbers of the
// log's format: a name in one place alone would be refused, or read as another value.
#include <set>
#include <string>

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include "core/schema/field_rules.hpp"
#include "policies/checkpointing/checkpoint_interval.hpp"
#include "policies/parameters.pb.h"
#include "policies/placement/placer.hpp"
#include "policies/seam/checkpoint_copies.hpp"
#include "policies/seam/job.hpp"
#include "topologies/builder.hpp"
#include "topologies/topology.pb.h"
#include "traces/chakra/recorded_op.hpp"
#include "traces/scenario/failure_model.hpp"
#include "traces/scenario/live_fabric.hpp"
#include "traces/scenario/replay_conditions.hpp"
#include "traces/trace.pb.h"
#include "traces/workload/collective.hpp"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/precision.hpp"
#include "traces/workload/sharding.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery {
namespace {

using Names = std::set<std::string>;

/// Returns the names that the schema allows for a field.
template <class Message>
Names allowed(const char* field) {
  const std::vector<std::string> words =
      allowed_words(*Message::descriptor()->FindFieldByName(field));
  return {words.begin(), words.end()};
}

/// Returns the names of an enum without the one that files never contain.
template <class Enum>
Names names(const char* internal = "") {
  const std::vector<std::string> all = all_names<Enum>();
  Names out(all.begin(), all.end());
  out.erase(internal);
  return out;
}

TEST(Choices, OfAJobHaveTheNamesOfTheSchema) {
  EXPECT_EQ(names<Sharding>(), allowed<Layout>("shard"));
  EXPECT_EQ(names<PipelineSchedule>(), allowed<Layout>("schedule"));
  EXPECT_EQ(names<RankOrder>(), allowed<Layout>("order"));
  EXPECT_EQ(names<LayerBalance>(), allowed<Layout>("balance"));
  EXPECT_EQ(names<JobPrecision>(), allowed<Job>("precision"));
  EXPECT_EQ(names<Recompute>(), allowed<Job>("recompute"));
  EXPECT_EQ(names<Attention>(), allowed<Job>("attention"));
  EXPECT_EQ(names<Offload>(), allowed<Job>("offload"));
  EXPECT_EQ(names<BuiltinKind>(), allowed<Model>("builtin"));
  EXPECT_EQ(names<Kernel::Kind>(), allowed<RecordedKernel>("kind"));
  EXPECT_EQ(names<Precision>(), allowed<RecordedKernel>("precision"));
  EXPECT_EQ(names<RecordedPhase>(), allowed<RecordedOp>("phase"));
  EXPECT_EQ(names<RecordedCollective>(), allowed<RecordedOp>("collective"));
}

TEST(Choices, OfARunHaveTheNamesOfTheSchema) {
  EXPECT_EQ(names<CollectiveAlgorithm>(), allowed<Trace>("algorithm"));
  EXPECT_EQ(names<CollectiveAlgorithm>(), allowed<Collective>("algorithm"));
  EXPECT_EQ(names<CollectiveKind>("send-receive"), allowed<Collective>("kind"));
  EXPECT_EQ(names<Precision>(), allowed<Trace>("precision"));
  EXPECT_EQ(names<FailingPart>(), allowed<FailureKind>("part"));
  EXPECT_EQ(names<MemoryShortage>(), allowed<orrery::Run>("memory"));
  EXPECT_EQ(names<LiveFabric>(), allowed<Live>("fabric"));
  EXPECT_EQ(names<JobSpeed>(), allowed<ReplayConditions>("speed"));
  EXPECT_EQ(names<EstimateKind>(), allowed<JobReplay>("estimates"));
  EXPECT_EQ(names<EstimateKind>(), allowed<RecordedLog>("estimates"));
  EXPECT_EQ(names<FabricForm>(), allowed<FabricSpec>("kind"));
  EXPECT_EQ(names<Transport>(), allowed<FabricSpec>("transport"));
  Names responses = names<LossResponse>();
  responses.insert("automatic");  // neither response is chosen
  EXPECT_EQ(responses, allowed<Survival>("on_loss"));
}

TEST(Choices, OfAPolicyHaveTheNamesOfTheSchema) {
  using Rule = CollectiveTableParameters::Rule;
  EXPECT_EQ(names<CollectiveKind>("send-receive"), allowed<Rule>("kind"));
  EXPECT_EQ(names<CollectiveAlgorithm>(), allowed<Rule>("algorithm"));
  EXPECT_EQ(names<IntervalMethod>(), allowed<CheckpointIntervalParameters>("method"));
  EXPECT_EQ(names<PlacementRule>(), allowed<FifoParameters>("placement"));
}

/// Expects an enum of the log's format with the names and numbers of an enum of the program.
template <class Enum>
void expect_record(const google::protobuf::EnumDescriptor& record) {
  const std::vector<std::string> all = all_names<Enum>();
  ASSERT_EQ(static_cast<int>(all.size()), record.value_count()) << record.name();
  for (int i = 0; i < record.value_count(); ++i) {
    std::string name = record.value(i)->name();
    for (char& c : name) c = c == '_' ? '-' : static_cast<char>(std::tolower(c));
    EXPECT_EQ(record.value(i)->number(), i);
    EXPECT_TRUE(name.ends_with("-" + all[static_cast<std::size_t>(i)])) << name;
  }
}

TEST(Choices, OfTheLogHaveTheNumbersOfTheEnums) {
  expect_record<CollectiveKind>(*CollectiveKindRecord_descriptor());
  expect_record<CollectiveAlgorithm>(*CollectiveAlgorithmRecord_descriptor());
  expect_record<Tier>(*TierRecord_descriptor());
  expect_record<LossResponse>(*LossResponseRecord_descriptor());
  expect_record<PartKind>(*PartKindRecord_descriptor());
}

}  // namespace
}  // namespace orrery
