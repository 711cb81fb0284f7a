#include "live/control/message_check.hpp"

#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "traces/workload/collective.hpp"
#include "traces/workload/gradient_codec.hpp"

namespace orrery::live {
namespace {

constexpr membership::Seat kFrom{.rank = 1, .life = 2};

AgentMessage status(std::uint32_t rank, std::uint32_t life) {
  AgentMessage message;
  message.mutable_status()->mutable_from()->set_rank(rank);
  message.mutable_status()->mutable_from()->set_life(life);
  return message;
}

TEST(MessageCheck, AMemberSpeaksForItsOwnSeatOnly) {
  EXPECT_EQ(fault_of(status(1, 2), kFrom), nullptr);
  EXPECT_STREQ(fault_of(status(0, 2), kFrom), "expected this process's status");
  EXPECT_STREQ(fault_of(status(1, 3), kFrom), "expected this process's status");
}

TEST(MessageCheck, AMessageHasAKindAndGreetingsComeFirst) {
  EXPECT_STREQ(fault_of(AgentMessage(), kFrom), "a message of no kind");
  EXPECT_STREQ(fault_of(ControllerMessage(), 0, 2), "a message of no kind");
  AgentMessage greeting;
  greeting.mutable_hello();
  EXPECT_STREQ(fault_of(greeting, kFrom), "expected one hello per stream, found a second");
}

TEST(MessageCheck, AmountsAreThoseOfThisWorld) {
  AgentMessage message;
  StepReport& report = *message.mutable_step_report();
  OpDone& op = *report.add_ops();
  EXPECT_EQ(fault_of(message, kFrom), nullptr);
  report.set_loss_sum(std::numeric_limits<double>::quiet_NaN());
  EXPECT_STREQ(fault_of(message, kFrom), "expected finite amounts of at least 0");
  report.set_loss_sum(3);
  report.set_duration(-1);
  EXPECT_STREQ(fault_of(message, kFrom), "expected finite amounts of at least 0");
  report.set_duration(1);
  op.set_bytes(-1);
  EXPECT_STREQ(fault_of(message, kFrom), "expected finite amounts of at least 0");
  op.set_bytes(1);
  op.set_start(-5);  // the update of the step before begins before this one
  EXPECT_EQ(fault_of(message, kFrom), nullptr);
}

TEST(MessageCheck, AHeartbeatIsOfItsSenderAndOfThisWorld) {
  AgentMessage message;
  Heartbeat& beat = *message.mutable_heartbeat();
  beat.mutable_status()->mutable_from()->set_rank(kFrom.rank);
  beat.mutable_status()->mutable_from()->set_life(kFrom.life);
  EXPECT_EQ(fault_of(message, kFrom), nullptr);
  beat.mutable_progress()->set_cpu(-1);
  EXPECT_STREQ(fault_of(message, kFrom), "expected this rank's heartbeat");
  beat.mutable_progress()->set_cpu(1);
  beat.mutable_status()->mutable_from()->set_life(kFrom.life + 1);
  EXPECT_STREQ(fault_of(message, kFrom), "expected this rank's heartbeat");
}

TEST(MessageCheck, AFailureHasAKindAndAHashItsLength) {
  AgentMessage message;
  message.mutable_failed()->set_kind(0);
  EXPECT_STREQ(fault_of(message, kFrom), "expected a known kind of failure");
  message.mutable_failed()->set_kind(5);
  EXPECT_EQ(fault_of(message, kFrom), nullptr);
  message.mutable_finished()->set_parameters_sha256("abc");
  EXPECT_STREQ(fault_of(message, kFrom), "expected a hash of 64 digits");
  message.mutable_finished()->set_parameters_sha256(std::string(64, 'a'));
  EXPECT_EQ(fault_of(message, kFrom), nullptr);
}

TEST(MessageCheck, ADurableShardHasASizeAndAHash) {
  AgentMessage message;
  ShardWritten& shard = *message.mutable_shard();
  EXPECT_STREQ(fault_of(message, kFrom), "expected a shard's size and hash");
  shard.set_size(300);
  shard.set_sha256(std::string(64, 'g'));
  EXPECT_STREQ(fault_of(message, kFrom), "expected a shard's size and hash");
  shard.set_sha256(std::string(64, 'f'));
  EXPECT_EQ(fault_of(message, kFrom), nullptr);
  shard.Clear();
  shard.set_failure("File too large");
  EXPECT_EQ(fault_of(message, kFrom), nullptr);
}

/// An order to rank 1 of three, to work with rank 2.
class Order : public ::testing::Test {
 protected:
  Order() {
    said().mutable_to()->set_rank(1);
    said().set_source(2);
    said().set_committed(4);
    said().set_work(true);
    for (const std::uint32_t rank : {1u, 2u}) {
      said().add_members()->set_rank(rank);
      said().add_addresses("unix:/socket");
      said().mutable_plan()->add_shares()->set_count(3);
    }
    said().mutable_plan()->set_step(4);
  }
  MemberDirective& said() { return *message_.mutable_directive(); }
  /// Returns the objection; empty: none.
  std::string fault(std::uint32_t rank = 1, std::uint32_t ranks = 3) const {
    const char* const found = fault_of(message_, rank, ranks);
    return found == nullptr ? "" : found;
  }
  ControllerMessage message_;
};

TEST_F(Order, ThatMakesSenseIsFollowed) { EXPECT_EQ(fault(), ""); }

TEST_F(Order, ForAnotherRankOrRunIsRefused) {
  EXPECT_EQ(fault(2), "expected a directive for this rank, found another");
  EXPECT_EQ(fault(1, 2), "expected members among the run's ranks, in order");
}

TEST_F(Order, NamesEachMemberOnceWithItsAddress) {
  said().mutable_members(1)->set_rank(1);
  EXPECT_EQ(fault(), "expected members among the run's ranks, in order");
  said().mutable_members(1)->set_rank(2);
  said().mutable_addresses()->RemoveLast();
  EXPECT_EQ(fault(), "expected an address per member");
}

TEST_F(Order, NamesThisRankAndTheSourceAmongTheMembers) {
  said().set_source(0);
  EXPECT_EQ(fault(), "expected a member as the source of the state");
  said().set_source(2);
  said().mutable_members(0)->set_rank(0);
  EXPECT_EQ(fault(), "expected this rank as a member");
}

TEST_F(Order, HasCollectivesThatThereAre) {
  CollectiveRuleRecord& rule = *said().mutable_plan()->mutable_collectives()->add_rules();
  rule.set_algorithm(ALGORITHM_TREE);
  EXPECT_EQ(fault(), "");
  rule.set_algorithm(static_cast<CollectiveAlgorithmRecord>(99));
  EXPECT_EQ(fault(), "expected known collectives in a plan");
  rule.set_algorithm(ALGORITHM_AUTOMATIC);
  rule.set_kind(static_cast<CollectiveKindRecord>(99));
  EXPECT_EQ(fault(), "expected known collectives in a plan");
}

TEST_F(Order, HasHardwareThatThereCanBe) {
  Hardware& hardware = *message_.mutable_hardware();
  EXPECT_EQ(fault(), "expected a possible speed and rate");  // no speed
  hardware.set_speed(0.5);
  EXPECT_EQ(fault(), "");
  hardware.set_speed(std::numeric_limits<double>::infinity());
  EXPECT_EQ(fault(), "expected a possible speed and rate");
  hardware.set_speed(1);
  hardware.set_link_rate(-1);
  EXPECT_EQ(fault(), "expected a possible speed and rate");
}

TEST_F(Order, HasAPlanThatFitsStepAndMembers) {
  said().mutable_plan()->set_step(5);
  EXPECT_EQ(fault(), "expected a plan of the next step, found another");
  said().mutable_plan()->set_step(4);
  said().mutable_plan()->mutable_shares(0)->set_count(4'000'000'000);
  EXPECT_EQ(fault(), "expected at most 1000000000 micro-batches in a plan");
  said().mutable_plan()->mutable_shares(0)->set_count(1);
  CodecRuleRecord& code = *said().mutable_plan()->add_codecs();
  code.set_codec(CODEC_INT4);
  EXPECT_EQ(fault(), "");
  code.set_parameter(7);
  EXPECT_EQ(fault(), "expected known gradient codecs in a plan");
  code.set_parameter(0);
  code.set_codec(static_cast<CodecNameRecord>(7));
  EXPECT_EQ(fault(), "expected known gradient codecs in a plan");
  code.set_codec(CODEC_NONE);
  code.set_bucket_class(kBucketClasses);
  EXPECT_EQ(fault(), "expected known gradient codecs in a plan");
  said().mutable_plan()->clear_codecs();
  said().mutable_plan()->mutable_shares()->RemoveLast();
  EXPECT_EQ(fault(), "expected one share per member in a plan");
  said().set_work(false);  // then nobody looks at the plan
  EXPECT_EQ(fault(), "");
}

TEST_F(Order, ToWhoeverHasLinkedUpNamesNobodyAgain) {
  said().clear_members();
  said().clear_addresses();
  EXPECT_EQ(fault(), "");
  said().mutable_plan()->clear_shares();
  EXPECT_EQ(fault(), "expected one share per member in a plan");
  said().set_work(false);
  EXPECT_EQ(fault(), "");
}

}  // namespace
}  // namespace orrery::live
