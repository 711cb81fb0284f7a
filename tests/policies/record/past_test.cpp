#include "policies/record/past.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/policies/toy_log.hpp"

namespace orrery {
namespace {

class PastOfToy : public testing::Test {
 protected:
  PastOfToy() { toy::record(toy::scenario_with("predictive-rebalance"), path_); }

  /// The recorded decisions, as who decides the same would.
  static DecisionList recorded(const CallRecord& call) {
    DecisionList list;
    for (const DecisionRecord& record : call.decisions()) list.put_decision(decode(record));
    return list;
  }
  void tell_all(Past& past) {
    std::size_t call = 0;
    const std::vector<LogRecord> records = toy::read_log(path_);
    while (past.next()) past.check_decisions(recorded(records.at(++call).call()));
  }

  const toy::TempDir dir_;
  const std::string path_ = dir_ / "log";
  const Cluster cluster_ = toy::cluster();
};

TEST_F(PastOfToy, EndsAtItsInstantWithTheWorldOfThen) {
  constexpr Nanos kUntil = 1'500'000'000;
  Past past(path_, kUntil, cluster_);
  past.compare_decisions();
  tell_all(past);
  EXPECT_LE(past.now(), kUntil);
  EXPECT_GT(past.now(), kUntil - toy::kTick);
  const JobInfo& job = past.world().jobs()[{0}];
  std::uint64_t steps = 0;
  for (const StepsDone& done : past.steps()) steps += done.count;
  EXPECT_EQ(job.step, steps);
  EXPECT_GT(steps, 10u);
  EXPECT_NE(job.shares(), even_split(40, 4)) << "what was decided has been applied";
  EXPECT_TRUE(past.open().empty());
  ASSERT_EQ(past.effects().size(), 1u);
}

TEST_F(PastOfToy, WithoutAnInstantIsAllOfIt) {
  Past past(path_, {}, cluster_);
  tell_all(past);
  EXPECT_EQ(past.now(), log_end(path_));
  EXPECT_EQ(past.calls(), toy::read_log(path_).back().footer().calls());
}

TEST_F(PastOfToy, OtherDecisionsOfTheSamePoliciesAreRefused) {
  Past past(path_, {}, cluster_);
  past.compare_decisions();
  EXPECT_THROW(
      {
        while (past.next()) past.check_decisions(DecisionList());
      },
      Error);
}

TEST_F(PastOfToy, WhatHasNoOutcomeYetIsOpen) {
  std::vector<LogRecord> records = toy::read_log(path_);
  Nanos decided = 0;
  for (const LogRecord& record : records) {
    if (record.call().decisions_size() > 0) decided = record.call().observation().now();
  }
  ASSERT_GT(decided, 0);
  Past past(path_, decided, cluster_);
  std::size_t call = 0, open = 0;
  while (past.next()) {
    past.check_decisions(recorded(records.at(++call).call()));
    open = std::max(open, past.open().size());
  }
  EXPECT_EQ(open, 1u);
}

TEST_F(PastOfToy, ALogWithoutItsEndEndsWithItsLastCall) {
  std::vector<LogRecord> records = toy::read_log(path_);
  records.resize(records.size() / 2);
  toy::write_log(path_, records);
  Past past(path_, {}, cluster_);
  tell_all(past);
  EXPECT_EQ(past.calls(), records.size() - 1);
  EXPECT_EQ(past.now(), log_end(path_));
}

TEST_F(PastOfToy, OnlyAScenarioCanBeGoneOnWith) {
  std::vector<LogRecord> records = toy::read_log(path_);
  records.front().mutable_header()->clear_scenario();
  records.front().mutable_header()->mutable_replay()->set_nodes(2);
  toy::write_log(path_, records);
  EXPECT_THROW(Past(path_, {}, cluster_), Error);
  EXPECT_THROW(log_header(path_), Error);
  toy::write_file(path_, "");
  EXPECT_THROW(log_end(path_), Error);
}

}  // namespace
}  // namespace orrery
