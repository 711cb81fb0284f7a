#include "traces/jobs/slurm_rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kReservations =
    "ReservationName=talk StartTime=2024-01-10T08:00:00 EndTime=2024-01-10T16:00:00 "
    "Duration=08:00:00\n"
    "   Nodes=gpu[001-002,7] NodeCnt=3 CoreCnt=64 Features=(null) PartitionName=(null) "
    "Flags=SPEC_NODES\n"
    "   TRES=cpu=64\n"
    "   Users=ann,bob Groups=(null) Accounts=vision Licenses=(null) State=INACTIVE\n"
    "\n"
    "ReservationName=lic StartTime=2024-01-10T08:00:00 EndTime=2024-01-10T16:00:00\n"
    "   Nodes= NodeCnt=0 Licenses=matlab:2\n";

/// Message of the refusal of reservations; empty if they are accepted.
std::string refusal(const std::string& text) {
  try {
    parse_slurm_reservations("r.txt", text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SlurmReservations, OfScontrol) {
  const auto all = parse_slurm_reservations("r.txt", kReservations);
  ASSERT_EQ(all.size(), 1u) << "a reservation of licenses has no nodes";
  EXPECT_EQ(all[0].name, "talk");
  EXPECT_EQ(all[0].begin_s, 1704873600);
  EXPECT_EQ(all[0].end_s - all[0].begin_s, 8 * 3600);
  EXPECT_THAT(all[0].nodes, ElementsAre("gpu001", "gpu002", "gpu7"));
  EXPECT_THAT(all[0].users, ElementsAre("ann", "bob"));
  EXPECT_THAT(all[0].accounts, ElementsAre("vision"));
}

TEST(SlurmReservations, InOneLineEach) {
  const std::string one =
      "ReservationName=a StartTime=2024-01-10T08:00:00 EndTime=2024-01-10T09:00:00 Nodes=n1 "
      "Users=root Accounts=(null)\n";
  const auto all = parse_slurm_reservations("r.txt", one + one);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_THAT(all[1].users, ElementsAre("root"));
  EXPECT_THAT(all[1].accounts, IsEmpty());
  EXPECT_THAT(parse_slurm_reservations("r.txt", "No reservations in the system\n"), IsEmpty());
}

TEST(SlurmReservations, ARefusalHasItsLine) {
  const std::string good =
      "ReservationName=a StartTime=2024-01-10T08:00:00 EndTime=2024-01-10T09:00:00 Nodes=n1\n";
  EXPECT_THAT(refusal("Name|Priority\n"), HasSubstr("r.txt:1:1: error: expected the output of"));
  EXPECT_THAT(refusal(good + "ReservationName=b StartTime=now EndTime=later Nodes=n1\n"),
              HasSubstr("r.txt:2:1: error: StartTime: expected a time such as"));
  EXPECT_THAT(refusal("ReservationName=b StartTime=2024-01-10T08:00:00 "
                      "EndTime=2024-01-10T08:00:00 Nodes=n1\n"),
              HasSubstr("expected an EndTime after the StartTime"));
  EXPECT_THAT(refusal("ReservationName=b StartTime=2024-01-10T08:00:00 "
                      "EndTime=2024-01-10T09:00:00 Nodes=n[1\n"),
              HasSubstr("expected a list of hosts"));
  EXPECT_THAT(refusal("ReservationName=b StartTime=2024-01-10T08:00:00 "
                      "EndTime=2024-01-10T09:00:00 Nodes=n1 Users=-ann\n"),
              HasSubstr("found '-ann', which is excluded"));
}

TEST(SlurmQos, OfSacctmgr) {
  const auto all = parse_slurm_qos("q.txt",
                                   "Name|Priority|GraceTime|Preempt|GrpTRES|MaxTRESPU\n"
                                   "normal|10|00:00:00|||cpu=64,gres/gpu=8\n"
                                   "high|100|00:00:00|normal,spot|gres/gpu=64,node=9|\n"
                                   "spot||00:00:00||gres/gpu=-1|\n");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].name, "normal");
  EXPECT_EQ(all[0].priority, 10);
  EXPECT_FALSE(all[0].gpus);
  EXPECT_EQ(all[0].gpus_per_user, 8u);
  EXPECT_EQ(all[1].gpus, 64u);
  EXPECT_FALSE(all[1].gpus_per_user);
  EXPECT_THAT(all[1].preempts, ElementsAre("normal", "spot"));
  EXPECT_EQ(all[2].priority, 0);
  EXPECT_FALSE(all[2].gpus) << "-1 is no limit";
}

TEST(SlurmQos, WithABarAtTheEnd) {
  const auto all = parse_slurm_qos("q.txt", "Name|Priority|\na|3|\n");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].priority, 3);
}

TEST(SlurmQos, ARefusalHasItsPlace) {
  const auto refused = [](const std::string& text, const std::string& said) {
    try {
      parse_slurm_qos("q.txt", text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(said));
    }
  };
  refused("Account|User\na|b\n", "q.txt:1:1: error: expected the output of 'sacctmgr");
  refused("Name|Priority\na|x\n", "q.txt:2:3: error: Priority: expected a number, found 'x'");
  refused("Name|GrpTRES\na|gres/gpu=x\n", "q.txt:2:3: error: GrpTRES: expected a number of GPUs");
  refused("Name|Priority\na\n", "q.txt:2:1: error: expected 2 fields");
}

}  // namespace
}  // namespace orrery
