// Recordings of rehearsed steps: those that ship, damaged ones, traces of other programs.
#include "traces/chakra/recording.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/traces/chakra_sample.hpp"

namespace orrery {
namespace {

using ::testing::HasSubstr;

class Recording : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::filesystem::path(::testing::TempDir()) / ("recording-" + std::string(test));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Returns the error of a recording whose metadata contain this text as the step.
  std::string refusal(const std::string& text) {
    chakra::GlobalMetadata metadata;
    metadata.set_version("0.0.4");
    if (!text.empty()) {
      chakra::AttributeProto& attribute = *metadata.add_attr();
      attribute.set_name(kRecordedStepAttribute);
      attribute.set_string_val(text);
    }
    std::string bytes;
    testing::append_message(bytes, metadata);
    std::ofstream(folder_ / "step.0.et", std::ios::binary) << bytes;
    try {
      read_recording((folder_ / "step").string());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      return error.what();
    }
    return "accepted";
  }

  std::filesystem::path folder_;
};

namespace chakra = testing::chakra;

TEST_F(Recording, ShippedOnesAreRead) {
  const std::string folder = ORRERY_SOURCE_DIR "/examples/recordings/";
  const RecordedStep ddp = read_recording(folder + "decoder-ddp");
  EXPECT_EQ(ddp.ranks(), 64u);
  EXPECT_EQ(ddp.micro_batches(), 1u);
  EXPECT_EQ(ddp.tokens(), 4u * 4096);
  EXPECT_FALSE(ddp.sharded());
  // Counted by hand: hidden 2048, 8192 tokens known, two layers; 12 matrices of hidden^2 a layer.
  EXPECT_EQ(ddp.parameters().embeddings(), 8192.0 * 2048);
  EXPECT_EQ(ddp.parameters().matrices(), (2 * 12 * 2048.0 + 8192) * 2048);
  EXPECT_EQ(ddp.parameters().vectors(), 2 * (4 + 4 + 4 + 1) * 2048.0);
  const double all =
      ddp.parameters().embeddings() + ddp.parameters().matrices() + ddp.parameters().vectors();
  EXPECT_EQ(ddp.parameter_bytes(), 2 * all);
  EXPECT_EQ(ddp.gradient_bytes(), 2 * all);
  EXPECT_EQ(ddp.gradient_value_bytes(), 2u);
  double exchanged = 0;
  for (const RecordedOp& op : ddp.ops()) {
    if (op.collective() == "all_reduce") exchanged += op.bytes();
  }
  EXPECT_NEAR(exchanged, 2 * all, 1024);
  const RecordedStep fsdp = read_recording(folder + "decoder-fsdp");
  EXPECT_TRUE(fsdp.sharded());
  EXPECT_EQ(fsdp.micro_batches(), 2u);
  EXPECT_EQ(fsdp.parameters().matrices(), ddp.parameters().matrices());
  EXPECT_NEAR(fsdp.parameter_bytes(), 4 * all / 64, 4096);
}

TEST_F(Recording, OthersAreRefusedWithTheReason) {
  EXPECT_THAT(refusal(""), HasSubstr("expected a recording of orrery rehearse --trace"));
  EXPECT_THAT(refusal("{"), HasSubstr("expected the step of a recording"));
  EXPECT_THAT(refusal(R"({"unknown_key": 1})"), HasSubstr("record the program again"));
  EXPECT_THAT(refusal(R"({"ranks": 8})"), HasSubstr("a step with forward and backward passes"));
  const std::string head = R"({"ranks": 8, "micro_batches": 1, "ops": [)";
  EXPECT_THAT(refusal(head + R"({"kernels": [0], "counts": [1]}]})"),
              HasSubstr("operation 0 has an unknown kernel"));
  EXPECT_THAT(refusal(head + R"({"kernels": [0]}]})"), HasSubstr("kernels without a count"));
  EXPECT_THAT(refusal(head + R"({"after": [0]}]})"), HasSubstr("waits for a later operation"));
  EXPECT_THAT(refusal(head + R"({"micro_batch": 1}]})"), HasSubstr("an unknown micro-batch"));
  EXPECT_THAT(refusal(head + R"({"collective": "all_reduce", "size": 1, "stride": 1}]})"),
              HasSubstr("less than two ranks"));
  EXPECT_EQ(refusal(head + R"({"phase": "forward"}]})"), "accepted");
}

TEST_F(Recording, StagesOfAPipelineMustFitTogether) {
  const std::string head = R"({"ranks": 8, "micro_batches": 1, "ops": [{"phase": "forward"}, )";
  const auto pipeline = [&](const std::string& first, const std::string& second) {
    return refusal(head + first + R"(], "stages": [{"ops": [{}, )" + second +
                   R"(]}, {"ops": []}, {"ops": []}]})");
  };
  const std::string send = R"({"collective": "send", "peer": 1, "bytes": 8})";
  const std::string receive = R"({"collective": "receive", "peer": 0, "bytes": 8})";
  EXPECT_EQ(pipeline(send, receive), "accepted");
  EXPECT_THAT(pipeline(send, "{}"), HasSubstr("the message from stage 0 to stage 1 in micro-batch "
                                              "0 has no partner"));
  EXPECT_THAT(pipeline("{}", receive), HasSubstr("has no partner"));
  EXPECT_THAT(pipeline(send, R"({"collective": "receive", "chunk": 1})"),
              HasSubstr("has no partner"));
  EXPECT_THAT(pipeline(R"({"collective": "send", "peer": 2})", "{}"),
              HasSubstr("operation 1 of stage 0 is a message of a stage that is no neighbour"));
  EXPECT_THAT(pipeline(R"({"phase": "update", "collective": "send", "peer": 1})", "{}"),
              HasSubstr("a message outside of the passes"));
  EXPECT_THAT(pipeline("{}", R"({"kernels": [0], "counts": [1]})"),
              HasSubstr("operation 1 of stage 1 has an unknown kernel"));
}

TEST_F(Recording, ShippedPipelinesAreRead) {
  const std::string folder = ORRERY_SOURCE_DIR "/examples/recordings/";
  const RecordedStep step = read_recording(folder + "pipeline-zero-bubble");
  EXPECT_EQ(step.schedule(), "ZBVZeroBubble");
  EXPECT_EQ(step.stages_size(), 1);
  EXPECT_EQ(step.micro_batches(), 5u);
  EXPECT_TRUE(step.sharded() && step.stages_apart());
  // Two chunks of two products on each of two stages, whose state four replicas divide.
  EXPECT_EQ(step.parameters().matrices(), 2 * 2 * 2 * 8192.0 * 8192);
  EXPECT_EQ(step.stages(0).parameter_bytes(), 2 * 2 * 2 * 8192.0 * 8192 / 4);
}

TEST_F(Recording, AWrittenStepIsReadAgain) {
  const RecordedStep step = read_recording(ORRERY_SOURCE_DIR "/examples/recordings/decoder-fsdp");
  write_recording(step, (folder_ / "again").string());
  EXPECT_EQ(read_recording((folder_ / "again").string()).SerializeAsString(),
            step.SerializeAsString());
}

TEST_F(Recording, AFileThatCannotBeWrittenIsNamed) {
  try {
    write_recording(RecordedStep(), (folder_ / "none" / "step").string());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_THAT(error.what(), HasSubstr("none/step.0.et"));
  }
}

TEST_F(Recording, MissingFilesAreNamed) {
  try {
    read_recording((folder_ / "none").string());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("none.0.et"));
  }
}

}  // namespace
}  // namespace orrery
