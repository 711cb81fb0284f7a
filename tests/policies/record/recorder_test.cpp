#include "policies/record/recorder.hpp"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <set>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/seam/drive.hpp"
#include "tests/policies/toy_log.hpp"

namespace orrery {
namespace {

toy::Recorded record_run(Policy& policy, Recorder::Options options) {
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster);
  Recorder recorder(backend, policy, LogHeader{}, std::move(options));
  Rng rng = policy_rng(1);
  Context context{rng, {}};
  toy::Recorded result{drive(policy, recorder, context), {}, {}};
  recorder.finish_log();
  result.log_sha256 = recorder.log_sha256();
  result.trace_sha256 = recorder.trace_sha256();
  EXPECT_GT(recorder.events(), 40u);
  return result;
}

toy::Recorded run_shift_once(const std::string& path) {
  toy::ShiftOnce policy;
  return record_run(policy, {.path = path});
}

TEST(Recorder, TheLogHoldsHeaderCallsAndFooter) {
  const toy::TempDir dir;
  const auto result = run_shift_once(dir / "log");
  const std::vector<LogRecord> records = toy::read_log(dir / "log");
  ASSERT_GT(records.size(), 42u);
  EXPECT_EQ(log_format(records.front().header()), kLogFormat);
  EXPECT_EQ(records.front().header().offered().actions(), Kinds<Action>::all().bits());
  EXPECT_EQ(records.front().header().needs().settings(), Kinds<Setting>::of<Shares>().bits());
  EXPECT_EQ(records.front().header().needs().tick_ns(), toy::kTick);
  EXPECT_EQ(records.back().footer().calls(), records.size() - 2);
  EXPECT_EQ(records.back().footer().decision_log_sha256(), result.log_sha256);
  EXPECT_EQ(records.back().footer().decision_trace_sha256(), result.trace_sha256);
  int decisions = 0, outcomes = 0, rests = 0;
  std::uint64_t last_digest = 0;
  for (std::size_t i = 1; i + 1 < records.size(); ++i) {
    const CallRecord& call = records[i].call();
    EXPECT_EQ(call.observation().sequence(), i - 1);
    EXPECT_NE(call.state_digest(), last_digest);  // it counts its calls
    last_digest = call.state_digest();
    decisions += call.decisions_size();
    rests += call.at_rest() ? 1 : 0;
    for (const EventRecord& event : call.observation().events()) {
      outcomes += event.has_decided() ? 1 : 0;
    }
  }
  EXPECT_EQ(decisions, 1);
  EXPECT_EQ(outcomes, 1);
  EXPECT_EQ(rests, int(records.size()) - 3);
}

TEST(Recorder, EqualRunsGiveEqualBytesAndHashesNeedNoFile) {
  const toy::TempDir dir;
  const auto first = run_shift_once(dir / "a");
  run_shift_once(dir / "b");
  EXPECT_EQ(toy::read_file(dir / "a"), toy::read_file(dir / "b"));
  const auto without = run_shift_once("");
  EXPECT_EQ(without.log_sha256, first.log_sha256);
  EXPECT_EQ(without.trace_sha256, first.trace_sha256);
}

TEST(Recorder, TheTraceHashIgnoresWhatIsSeenAndTheLogHashDoesNot) {
  const Scenario reads = toy::scenario_with("predictive-rebalance");
  const auto one = toy::record(reads, "", 12, 1);
  const auto other = toy::record(reads, "", 12, 2);
  EXPECT_NE(one.log_sha256, other.log_sha256);
  EXPECT_EQ(one.trace_sha256, other.trace_sha256);
  EXPECT_NE(run_shift_once("").trace_sha256, one.trace_sha256);
}

TEST(Recorder, OfTelemetryTheLogHoldsWhatWasReadOnce) {
  class Reader : public toy::ShiftOnce {
   public:
    void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
      ShiftOnce::observe(context, seen, decisions);
      if (seen.sequence != 3) return;
      read = seen.samples.ranks({0}).size() + seen.samples.ranks({0}).size();
      EXPECT_EQ(seen.samples.ranks({0}).data(), seen.samples.ranks({0}).data());
      EXPECT_TRUE(seen.samples.links({0}).empty());
    }
    std::size_t read = 0;
  } policy;
  const toy::TempDir dir;
  record_run(policy, {.path = dir / "log"});
  EXPECT_EQ(policy.read, 8u);
  const std::vector<LogRecord> records = toy::read_log(dir / "log");
  for (std::size_t i = 1; i + 1 < records.size(); ++i) {
    EXPECT_EQ(records[i].call().read_size(), i == 4 ? 8 : 0) << i;
  }
  EXPECT_EQ(records[4].call().read(0).rows().ids(0).count(), 4u);
  EXPECT_EQ(records[4].call().read(7).what(), SamplesRead::LINKS);
}

TEST(Recorder, OfATableTheLogHoldsTheColumnsThatWereRead) {
  class Reader : public toy::ShiftOnce {
   public:
    void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
      ShiftOnce::observe(context, seen, decisions);
      if (seen.sequence != 3) return;
      const auto times = seen.samples.column(SampleField::micro_batch_time, {0});
      EXPECT_EQ(times->size(), 4u);
      EXPECT_EQ(times, seen.samples.column(SampleField::micro_batch_time, {0})) << "no copy";
    }
  } policy;
  const toy::TempDir dir;
  record_run(policy, {.path = dir / "log"});
  const CallRecord call = toy::read_log(dir / "log")[4].call();
  ASSERT_EQ(call.read_size(), 1);
  EXPECT_EQ(describe_read(call.read(0)), "micro_batch_time of RANKS");
  EXPECT_EQ(call.read(0).rows().ids_size(), 0);
}

/// Policy with a state of many bytes, which changes in each call.
class LargeState : public toy::ShiftOnce {
 public:
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    ShiftOnce::observe(context, seen, decisions);
    if (!decisions.items().empty()) decided.push_back(seen.sequence);
    ++calls;
  }
  void save(Archive& archive) const override {
    archive.assign(2 * kLargeState, static_cast<char>(calls));
  }
  std::vector<std::uint64_t> decided;
  int calls = 0;
};

TEST(Recorder, ALargeStateIsDigestedAfterDecisionsAndNowAndThen) {
  LargeState policy;
  const toy::TempDir dir;
  record_run(policy, {.path = dir / "log"});
  ASSERT_EQ(policy.decided.size(), 1u);
  const std::vector<LogRecord> records = toy::read_log(dir / "log");
  const std::uint64_t every = calls_between_digests(2 * kLargeState);
  for (std::size_t i = 1; i + 1 < records.size(); ++i) {
    const bool due = i == 1 || i % every == 0 || i - 1 == policy.decided[0];
    EXPECT_EQ(records[i].call().state_digest() != 0, due) << i;
  }
}

TEST(Recorder, TheLargerAStateTheRarerAreItsDigests) {
  EXPECT_EQ(calls_between_digests(0), 1u);
  EXPECT_EQ(calls_between_digests(kLargeState), 1u);
  EXPECT_EQ(calls_between_digests(kLargeState + 1), 64u);
  EXPECT_EQ(calls_between_digests(std::size_t{16} << 20), 64u);
  EXPECT_EQ(calls_between_digests(std::size_t{45} << 20), 180u);
}

/// The number of saves shows the cost of encoding a policy's state.
class SavesCounted : public toy::ShiftOnce {
 public:
  void save(Archive& archive) const override {
    ++saves;
    ShiftOnce::save(archive);
  }
  mutable int saves = 0;
};

TEST(Recorder, NobodyWhoWantsALogOrAHashPaysForNone) {
  SavesCounted hashed, plain;
  const auto with = record_run(hashed, {});
  const auto without = record_run(plain, {.hash = false});
  EXPECT_GT(hashed.saves, 40);
  EXPECT_EQ(plain.saves, 0);
  EXPECT_EQ(without.decisions, with.decisions);
  EXPECT_NE(with.log_sha256, "");
  EXPECT_EQ(without.log_sha256, "");
  EXPECT_EQ(without.trace_sha256, "");
}

TEST(Recorder, WithoutALogItStillCounts) {
  toy::ShiftOnce alone;
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster, 2);
  Recorder recorder(backend, alone, LogHeader{}, {.hash = false});
  const auto seen = recorder.next();
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->events.size(), 2u);
  recorder.apply(DecisionList{});
  EXPECT_EQ(recorder.calls(), 1u);
  EXPECT_EQ(recorder.events(), 2u);
}

/// Returns the trace of two decisions with their outcomes in this order.
std::string trace_of(std::initializer_list<Decided> outcomes) {
  const Cluster cluster = toy::cluster();
  const World world(cluster);
  NoSamples samples;
  DecisionTrace trace;
  for (const DecisionId id : {0u, 1u}) {
    trace.add_decision({.id = id, .what = Save{{0}, static_cast<Tier>(id)}},
                  toy::seen_of(world, {}, samples));
  }
  for (const Decided& outcome : outcomes) {
    const Event event = outcome;
    trace.add_observation(toy::seen_of(world, {&event, 1}, samples));
  }
  return trace.finish_trace();
}

TEST(DecisionTrace, HoldsWhatBecameOfEachDecisionWhateverTheOrder) {
  const Decided yes{0, Outcome::applied, ""}, no{0, Outcome::rejected, "a"};
  const Decided late{0, Outcome::expired, ""}, other{1, Outcome::applied, ""};
  const std::string all_applied = trace_of({yes, other});
  EXPECT_EQ(trace_of({other, yes}), all_applied);
  EXPECT_EQ(trace_of({{0, Outcome::rejected, "b"}, other}), trace_of({no, other}));
  const std::set<std::string> different{all_applied, trace_of({no, other}), trace_of({late, other}),
                                        trace_of({other}), trace_of({})};
  EXPECT_EQ(different.size(), 5u);
}

TEST(Recorder, RunsThatRefuseDifferentlyHaveDifferentTraces) {
  const auto trace = [](bool stopped) {
    const Cluster cluster = toy::cluster();
    toy::ToyBackend backend(cluster);
    HandOver handed_over(backend, {.stopped = [stopped] { return stopped; }});
    toy::ShiftOnce policy;
    Recorder recorder(handed_over, policy, LogHeader{}, {});
    Rng rng = policy_rng(1);
    Context context{rng, {}};
    drive(policy, recorder, context);
    recorder.finish_log();
    return recorder.trace_sha256();
  };
  EXPECT_EQ(trace(false), run_shift_once("").trace_sha256);
  EXPECT_NE(trace(true), trace(false));
}

TEST(Recorder, AnUnfinishedLogLeavesNothingBehind) {
  const toy::TempDir dir;
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster);
  toy::ShiftOnce policy;
  {
    Recorder recorder(backend, policy, LogHeader{}, {.path = dir / "log"});
    recorder.next();
    recorder.apply(DecisionList{});
    EXPECT_TRUE(std::filesystem::exists(partial_log(dir / "log")));
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "log"));
  EXPECT_FALSE(std::filesystem::exists(partial_log(dir / "log")));
}

TEST(Recorder, WhatIsNoRegularFileIsWrittenToAndNeverReplaced) {
  const toy::TempDir dir;
  const std::string pipe = dir / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  // lets the writer open the pipe without waiting
  const int end = open(pipe.c_str(), O_RDWR | O_NONBLOCK);
  run_shift_once(pipe);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  char first = 0;
  EXPECT_EQ(read(end, &first, 1), 1);
  close(end);
  EXPECT_THROW(run_shift_once(dir / ""), Error) << "a folder is no log";
}

TEST(Recorder, ALinkInThePlaceOfTheUnfinishedLogIsNotFollowed) {
  const toy::TempDir dir;
  const std::string mine = dir / "mine";
  std::ofstream(mine) << "the user's";
  std::filesystem::create_symlink(mine, partial_log(dir / "log"));
  EXPECT_THROW(run_shift_once(dir / "log"), Error);
  EXPECT_EQ(std::filesystem::file_size(mine), 10u);
}

TEST(Recorder, WhatADeadRunHasLeftInItsPlaceIsNotPartOfTheLog) {
  const toy::TempDir dir;
  std::ofstream(partial_log(dir / "log")) << std::string(1 << 20, 'x');
  run_shift_once(dir / "log");
  run_shift_once(dir / "other");
  EXPECT_EQ(toy::read_file(dir / "log"), toy::read_file(dir / "other"));
}

TEST(Recorder, ALogThatCannotBeWrittenIsGivenUpWhereThatIsWanted) {
  int asked = 0;
  toy::ShiftOnce policy;
  const auto go_on = [&asked](const std::string& why) {
    EXPECT_NE(why.find("No space left"), std::string::npos);
    return ++asked > 0;
  };
  const auto without = record_run(policy, {.path = "/dev/full", .without = go_on});
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(without.log_sha256, run_shift_once("").log_sha256) << "the hash goes on";
  EXPECT_THROW(run_shift_once("/dev/full"), Error);
}

TEST(Recorder, APlaceThatCannotBeWrittenIsAnEnvironmentError) {
  try {
    run_shift_once("/nowhere/log");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_NE(error.message().find("/nowhere/log"), std::string::npos);
  }
}

TEST(Recorder, AFullDiskIsAnEnvironmentError) {
  const toy::TempDir dir;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &small);
  ErrorKind kind = ErrorKind::internal;
  try {
    run_shift_once(dir / "log");
  } catch (const Error& error) {
    kind = error.kind();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(kind, ErrorKind::environment);
  EXPECT_FALSE(std::filesystem::exists(dir / "log"));
}

}  // namespace
}  // namespace orrery
