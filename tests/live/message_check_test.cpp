#include "live/message_check.hpp"

#include <limits>

#include <gtest/gtest.h>

#include "policies/compression/gradient_codec.hpp"
#include "traces/collective.hpp"

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
  EXPECT_NE(fault_of(status(0, 2), kFrom), nullptr);
  EXPECT_NE(fault_of(status(1, 3), kFrom), nullptr);
}

TEST(MessageCheck, AMessageHasAKindAndGreetingsComeFirst) {
  EXPECT_NE(fault_of(AgentMessage(), kFrom), nullptr);
  EXPECT_NE(fault_of(ControllerMessage(), 0, 2), nullptr);
  AgentMessage greeting;
  greeting.mutable_hello();
  EXPECT_NE(fault_of(greeting, kFrom), nullptr);
}

TEST(MessageCheck, AmountsAreThoseOfThisWorld) {
  AgentMessage message;
  StepReport& report = *message.mutable_step_report();
  OpDone& op = *report.add_ops();
  EXPECT_EQ(fault_of(message, kFrom), nullptr);
  report.set_loss_sum(std::numeric_limits<double>::quiet_NaN());
  EXPECT_NE(fault_of(message, kFrom), nullptr);
  report.set_loss_sum(3);
  report.set_duration(-1);
  EXPECT_NE(fault_of(message, kFrom), nullptr);
  report.set_duration(1);
  op.set_bytes(-1);
  EXPECT_NE(fault_of(message, kFrom), nullptr);
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
  EXPECT_NE(fault_of(message, kFrom), nullptr);
  beat.mutable_progress()->set_cpu(1);
  beat.mutable_status()->mutable_from()->set_life(kFrom.life + 1);
  EXPECT_NE(fault_of(message, kFrom), nullptr);
}

TEST(MessageCheck, AFailureHasAKindAndAHashItsLength) {
  AgentMessage message;
  message.mutable_failed()->set_kind(0);
  EXPECT_NE(fault_of(message, kFrom), nullptr);
  message.mutable_failed()->set_kind(5);
  EXPECT_EQ(fault_of(message, kFrom), nullptr);
  message.mutable_finished()->set_parameters_sha256("abc");
  EXPECT_NE(fault_of(message, kFrom), nullptr);
  message.mutable_finished()->set_parameters_sha256(std::string(64, 'a'));
  EXPECT_EQ(fault_of(message, kFrom), nullptr);
}

TEST(MessageCheck, ADurableShardHasASizeAndAHash) {
  AgentMessage message;
  ShardWritten& shard = *message.mutable_shard();
  EXPECT_NE(fault_of(message, kFrom), nullptr);
  shard.set_size(300);
  shard.set_sha256(std::string(64, 'g'));
  EXPECT_NE(fault_of(message, kFrom), nullptr);
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
    said().mutable_plan()->set_speed(1);
  }
  MemberDirective& said() { return *message_.mutable_directive(); }
  bool refused(std::uint32_t rank = 1, std::uint32_t ranks = 3) const {
    return fault_of(message_, rank, ranks) != nullptr;
  }
  ControllerMessage message_;
};

TEST_F(Order, ThatMakesSenseIsFollowed) { EXPECT_FALSE(refused()); }

TEST_F(Order, ForAnotherRankOrRunIsRefused) {
  EXPECT_TRUE(refused(2));
  EXPECT_TRUE(refused(1, 2));
}

TEST_F(Order, NamesEachMemberOnceWithItsAddress) {
  said().mutable_members(1)->set_rank(1);
  EXPECT_TRUE(refused());
  said().mutable_members(1)->set_rank(2);
  said().mutable_addresses()->RemoveLast();
  EXPECT_TRUE(refused());
}

TEST_F(Order, NamesThisRankAndTheSourceAmongTheMembers) {
  said().set_source(0);
  EXPECT_TRUE(refused());
  said().set_source(2);
  said().mutable_members(0)->set_rank(0);
  EXPECT_TRUE(refused());
}

TEST_F(Order, HasCollectivesThatThereAre) {
  CollectiveRuleRecord& rule = *said().mutable_plan()->mutable_collectives()->add_rules();
  rule.set_algorithm(static_cast<std::uint32_t>(CollectiveAlgorithm::tree));
  EXPECT_FALSE(refused());
  rule.set_algorithm(99);
  EXPECT_TRUE(refused());
  rule.set_algorithm(0);
  rule.set_kind(99);
  EXPECT_TRUE(refused());
}

TEST_F(Order, HasAPlanThatFitsStepMembersAndPace) {
  said().mutable_plan()->set_step(5);
  EXPECT_TRUE(refused());
  said().mutable_plan()->set_step(4);
  said().mutable_plan()->set_speed(0);
  EXPECT_TRUE(refused());
  said().mutable_plan()->set_speed(std::numeric_limits<double>::infinity());
  EXPECT_TRUE(refused());
  said().mutable_plan()->set_speed(1);
  said().mutable_plan()->mutable_shares(0)->set_count(4'000'000'000);
  EXPECT_TRUE(refused());
  said().mutable_plan()->mutable_shares(0)->set_count(1);
  CodecRuleRecord& code = *said().mutable_plan()->add_codecs();
  code.set_codec(static_cast<std::uint32_t>(Codec::int4));
  EXPECT_FALSE(refused());
  code.set_parameter(7);
  EXPECT_TRUE(refused());
  code.set_parameter(0);
  code.set_codec(7);
  EXPECT_TRUE(refused());
  code.set_codec(0);
  code.set_bucket_class(kBucketClasses);
  EXPECT_TRUE(refused());
  said().mutable_plan()->clear_codecs();
  said().mutable_plan()->mutable_shares()->RemoveLast();
  EXPECT_TRUE(refused());
  said().set_work(false);  // then nobody looks at the plan
  EXPECT_FALSE(refused());
}

TEST_F(Order, ToWaitNamesNobody) {
  said().clear_members();
  said().clear_addresses();
  EXPECT_TRUE(refused());
  said().set_work(false);
  EXPECT_FALSE(refused());
}

}  // namespace
}  // namespace orrery::live
