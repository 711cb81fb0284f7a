// Kill -9 of the controller: its supervisor starts another one, which goes on from the journal
// while the agents wait. Nothing is lost, repeated or decided otherwise.
//   ORRERY_SEED=N  other moments
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/random.hpp"
#include "live/run/files/journal.hpp"
#include "policies/record/encoding.hpp"
#include "policies/run/replay.hpp"
#include "tests/live/live_run.hpp"
#include "tests/policies/toy_log.hpp"

namespace orrery::live {
namespace {

std::uint64_t seed() {
  const char* given = std::getenv("ORRERY_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 1;
}

/// Kills the controller of the run that is under way, so many times.
class Killer {
 public:
  /// From the first controller's start on, after `pause()` seconds each.
  Killer(int times, std::function<double()> pause)
      : thread_([this, times, pause = std::move(pause)](const std::stop_token& stop) {
          pid_t last = 0;
          for (int i = 0; i < times && !stop.stop_requested(); ++i) {
            std::vector<pid_t> found;
            const auto another = [&] {
              found = controllers();
              return stop.stop_requested() || (found.size() == 1 && found[0] != last);
            };
            if (!eventually(another) || stop.stop_requested()) return;
            std::this_thread::sleep_for(std::chrono::duration<double>(pause()));
            last = found[0];
            note_journals();
            if (kill(last, SIGKILL) == 0) ++kills_;
          }
        }) {}
  int kills() const { return kills_; }
  /// Files that were the journal when a controller was killed: one that is begun anew is another.
  std::size_t journals() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();
    return journals_.size();
  }

 private:
  void note_journals() {
    for (const auto& entry : std::filesystem::directory_iterator(run_parent())) {
      struct stat status {};
      if (!entry.path().filename().string().starts_with("orrery-live-")) continue;
      if (stat((entry.path() / "journal").c_str(), &status) == 0) journals_.insert(status.st_ino);
    }
  }
  std::set<ino_t> journals_;  ///< used by the thread until it is joined
  std::atomic<int> kills_ = 0;
  std::jthread thread_;
};

/// Checks that report and log describe an undisturbed run.
void expect_undisturbed(const Report& report, const Report& calm) {
  EXPECT_EQ(report.steps_completed(), calm.steps_completed());
  EXPECT_EQ(report.micro_batches_lost(), 0u);
  EXPECT_EQ(report.micro_batches_repeated(), 0u);
  EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
  EXPECT_EQ(report.losses_size(), calm.losses_size());
}

TEST(Controller, KilledAtRandomMomentsLosesNothingAndItsLogReplays) {
  const std::vector<std::string> settings{
      "run.steps=40", "faults=[{rank: 2, at_step: 6, slow: 4}, {rank: 1, at_step: 14, kill: true}]",
      "policies=[{name: predictive-rebalance}, {name: recover}]"};
  const Report calm = run_in_worker(kProgram, request({"run.steps=40"}));
  const std::string log = ::testing::TempDir() + "/controller.log";
  Rng rng(seed());
  for (int i = 0; i < 2; ++i) {
    SCOPED_TRACE(fmt::format("ORRERY_SEED={}, run {}", seed(), i));
    RunRequest asked = request(settings);
    asked.set_record(log);
    Killer killer(3, [&rng] { return 0.15 + rng.uniform(); });
    const Report report = run_in_worker(kProgram, asked);
    expect_undisturbed(report, calm);
    EXPECT_GE(report.controller_restarts(), 1u);
    EXPECT_LE(report.controller_restarts(), 3u);
    EXPECT_GE(report.failures_size(), 1);
    EXPECT_EQ(report.faults_injected(), 2u);
    const ReplayResult replay = replay_log(log, {});
    EXPECT_EQ(replay.first_difference, "");
    EXPECT_EQ(replay.decisions, report.decisions());
    EXPECT_EQ(replay.decision_trace_sha256, report.decision_trace_sha256());
  }
  std::filesystem::remove(log);
  expect_nothing_left();
}

/// All ranks end and load a checkpoint, and meanwhile the controller is killed.
TEST(Controller, KilledDuringARestartFromACheckpointItIsReplaced) {
  const std::string folder = ::testing::TempDir() + fmt::format("orrery_restart.{}", getpid());
  const std::vector<std::string> settings{
      "run.steps=40", "faults=[{rank: 1, at_step: 14, kill: true}]",
      "policies=[{name: recover, parameters: {how: restart}}]",
      fmt::format("checkpoints={{folder: {}, every: 5, keep: 1}}", folder)};
  const Report calm = run_in_worker(kProgram, request({"run.steps=40"}));
  Rng rng(seed());
  std::uint64_t restarts = 0;
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(fmt::format("ORRERY_SEED={}, run {}", seed(), i));
    std::filesystem::remove_all(folder);
    Killer killer(3, [&rng, first = true]() mutable {
      return (std::exchange(first, false) ? 1.2 : 0.1) + 0.7 * rng.uniform();
    });
    const Report report = run_in_worker(kProgram, request(settings));
    EXPECT_EQ(report.steps_completed(), 40u);
    EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
    EXPECT_EQ(report.micro_batches_lost() + report.micro_batches_repeated(), 0u);
    EXPECT_EQ(report.unfinished(), "");
    EXPECT_EQ(report.failures_size(), 1);
    EXPECT_GE(report.steps_rolled_back(), 4u);
    restarts += report.controller_restarts();
  }
  EXPECT_GE(restarts, 3u);
  std::filesystem::remove_all(folder);
  expect_nothing_left();
}

/// The journal begins again several times a second, and the run after a snapshot is the same run:
/// its log replays, with the same bytes for the policies.
TEST(Controller, ItsSuccessorGoesOnFromASnapshotAndWhatFollowed) {
  const std::vector<std::string> settings{
      "run.steps=40", "live.journal_tail=4 KiB",
      "faults=[{rank: 2, at_step: 6, slow: 4}, {rank: 1, at_step: 14, kill: true}]",
      "policies=[{name: predictive-rebalance}, {name: recover}]"};
  const Report calm = run_in_worker(kProgram, request({"run.steps=40"}));
  const std::string log = ::testing::TempDir() + "/snapshot.log";
  Rng rng(seed());
  for (const char* mode : {"drive", "shadow"}) {
    SCOPED_TRACE(fmt::format("ORRERY_SEED={}, {}", seed(), mode));
    RunRequest asked = request(settings);
    asked.set_record(log);
    asked.set_mode(mode);
    Killer killer(3, [&rng] { return 1 + rng.uniform(); });
    const Report report = run_in_worker(kProgram, asked);
    expect_undisturbed(report, calm);
    EXPECT_GE(report.controller_restarts(), 2u);
    EXPECT_GE(killer.journals(), 2u) << "it was begun anew between two kills";
    EXPECT_EQ(report.faults_injected(), 2u);
    const ReplayResult replay = replay_log(log, {});
    EXPECT_EQ(replay.first_difference, "");
    EXPECT_EQ(replay.decisions, report.decisions());
    EXPECT_EQ(replay.decision_trace_sha256, report.decision_trace_sha256());
  }
  std::filesystem::remove(log);
  expect_nothing_left();
}

TEST(Controller, KilledWhileTheRanksLinkUpItIsReplacedToo) {
  const Report calm = run_in_worker(kProgram, request({}));
  for (const double pause : {0.0, 0.03, 0.06}) {
    Killer killer(2, [pause] { return pause; });
    const Report report = run_in_worker(kProgram, request({}));
    expect_undisturbed(report, calm);
    EXPECT_EQ(report.controller_restarts(), 2u);
    EXPECT_EQ(report.failures_size(), 0);
  }
  expect_nothing_left();
}

/// Files of the folder whose names contain `part`.
std::ptrdiff_t files(const std::string& folder, const std::string& part) {
  return std::ranges::count_if(std::filesystem::directory_iterator(folder), [&](const auto& file) {
    return file.path().filename().string().find(part) != std::string::npos;
  });
}

TEST(Controller, ItsSuccessorGoesOnWithItsCheckpointsAndFromThem) {
  const std::string folder = ::testing::TempDir() + "orrery_controller." + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  const std::string checkpoints =
      fmt::format("checkpoints={{folder: {}, every: 2, keep: 2}}", folder);
  const Report calm = run_in_worker(kProgram, request({"run.steps=40"}));
  Rng rng(seed());
  for (const char* steps : {"20", "40"}) {
    SCOPED_TRACE(fmt::format("ORRERY_SEED={}, {} steps", seed(), steps));
    RunRequest asked = request({std::string("run.steps=") + steps, checkpoints});
    if (steps == std::string("40")) asked.set_resume_from(folder);
    Killer killer(2, [&rng] { return 0.3 + 0.7 * rng.uniform(); });
    const Report report = run_in_worker(kProgram, asked);
    EXPECT_GE(report.controller_restarts(), 1u);
    EXPECT_EQ(report.steps_completed(), 20u);
    EXPECT_EQ(report.losses_size(), 20);
    EXPECT_EQ(report.micro_batches_lost() + report.micro_batches_repeated(), 0u);
    EXPECT_EQ(report.checkpoints_written() + report.checkpoints_failed(), 10u);
    EXPECT_GE(report.checkpoints_written(), 10 - report.controller_restarts());
    EXPECT_EQ(files(folder, "manifest"), 2);
    EXPECT_EQ(files(folder, ""), 2 * (4 + 1)) << "what was not whole is gone";
    if (steps == std::string("40")) {
      EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
    }
  }
  std::filesystem::remove_all(folder);
  expect_nothing_left();
}

/// Status of the run that is under way; an empty object before the first.
nlohmann::json status_now() {
  for (const auto& entry : std::filesystem::directory_iterator(run_parent())) {
    std::ifstream file(entry.path() / kStatusFile);
    const nlohmann::json status = nlohmann::json::parse(file, nullptr, false);
    if (status.is_object()) return status;
  }
  return nlohmann::json::object();
}

/// Limits the size of the files that a process writes.
void limit_files(pid_t process, rlim_t bytes) {
  const rlimit limit{.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
  EXPECT_EQ(prlimit(process, RLIMIT_FSIZE, &limit, nullptr), 0);
}

/// Steps of the checkpoints that a log reports as durable, or as failed, in order.
std::vector<Step> saves_in(const std::string& log, bool durable) {
  std::vector<Step> steps;
  for (const LogRecord& record : toy::read_log(log)) {
    for (const EventRecord& event : record.call().observation().events()) {
      if (!event.has_save_done() || event.save_done().durable() != durable) continue;
      steps.push_back(event.save_done().step());
    }
  }
  return steps;
}

/// Checks that the status of a successor continues the status of its predecessor.
void expect_continued(const nlohmann::json& before, const nlohmann::json& after) {
  for (const char* key : {"step", "epoch", "elapsed_s", "samples", "checkpoints_written",
                          "checkpoints_failed"}) {
    EXPECT_GE(after.value(key, 0.0), before.value(key, 0.0)) << key;
  }
  EXPECT_EQ(after.value("losses", -1), before.value("losses", -2));
  EXPECT_EQ(after.value("steps", -1), before.value("steps", -2));
  // Each step has equally many sequences.
  EXPECT_EQ(after.value("samples", 0) * before.value("step", 0),
            before.value("samples", 0) * after.value("step", 0));
  EXPECT_GT(after.value("loss", 0.0), 0);
  EXPECT_LT(after.value("loss", 0.0), 2 * before.value("loss", 0.0));
  EXPECT_GT(after.value("step_time_s", 0.0), 0);
  for (const char* key : {"batch", "learning_rate_factor", "ranks_missing"}) {
    EXPECT_EQ(after.value(key, -1.0), before.value(key, -2.0)) << key;
  }
}

/// Rank 2 cannot write until a controller has died that has reported a failed checkpoint.
TEST(Controller, ItsSuccessorNeitherForgetsAFailedCheckpointNorReportsItAgain) {
  const std::string folder = ::testing::TempDir() + fmt::format("orrery_failed.{}", getpid());
  const std::string log = ::testing::TempDir() + "/failed.log";
  std::filesystem::remove_all(folder);
  RunRequest asked = request(
      {"run.steps=60", fmt::format("checkpoints={{folder: {}, every: 4, keep: 1}}", folder)});
  asked.set_record(log);
  nlohmann::json before, after;
  std::jthread disk([&before, &after] {
    EXPECT_TRUE(eventually([] { return status_now().value("step", 0) > 0; }));
    const pid_t rank = agent_on(2);
    ASSERT_NE(rank, 0);
    limit_files(rank, 1000);
    EXPECT_TRUE(eventually([&before] {
      before = status_now();
      return before.value("checkpoints_failed", 0) > 0;
    }));
    const std::vector<pid_t> found = controllers();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(kill(found[0], SIGKILL), 0);
    EXPECT_TRUE(eventually([] { return status_now().value("controller_restarts", 0) > 0; }));
    limit_files(rank, RLIM_INFINITY);  // the links between the ranks get memory later
    EXPECT_TRUE(eventually([&after] {
      after = status_now();
      // The first status is published before the successor has the world.
      return after.value("batch", 0) > 0;
    }));
  });
  const Report report = run_in_worker(kProgram, asked);
  disk.join();
  EXPECT_EQ(report.controller_restarts(), 1u);
  const std::vector<Step> failed = saves_in(log, false), durable = saves_in(log, true);
  EXPECT_EQ(report.checkpoints_failed(), failed.size());
  EXPECT_EQ(report.checkpoints_written(), durable.size());
  EXPECT_EQ(std::set<Step>(failed.begin(), failed.end()).size(), failed.size())
      << "a failure was reported twice";
  EXPECT_GE(failed.size(), 1u);
  EXPECT_FALSE(durable.empty());
  EXPECT_EQ(report.unfinished(), "");
  expect_continued(before, after);
  std::filesystem::remove(log);
  std::filesystem::remove_all(folder);
  expect_nothing_left();
}

/// Returns the records of a journal. The last one may be torn.
std::vector<JournalRecord> records_of(const std::string& journal) {
  const std::size_t header = framed("").size();
  std::vector<JournalRecord> out;
  for (std::size_t at = 0; at + header <= journal.size();) {
    std::uint32_t length = 0;
    std::memcpy(&length, journal.data() + at, sizeof length);
    at += header;
    if (at + length > journal.size()) break;
    EXPECT_TRUE(out.emplace_back().ParseFromArray(journal.data() + at, static_cast<int>(length)));
    at += length;
  }
  return out;
}

using Records = std::vector<JournalRecord>;

/// Adds a wake-up time to the first recorded answer. The successor's policies do not request this
/// time, so their answer differs from the record.
void add_wake(Records& records) {
  const auto answer = std::ranges::find_if(records, &JournalRecord::has_read);
  ASSERT_NE(answer, records.end()) << "the policies had answered";
  answer->mutable_read()->add_wakes(std::int64_t{1} << 60);
}

/// Adds a decision to the newest recorded answer: a checkpoint of step 38, open until then. The
/// successor's policies decide less than recorded.
void add_decision(Records& records) {
  Decision decision;
  decision.what = Save{{0}, Tier::local_disk};
  decision.at_step = 39;
  JournalRead* newest = nullptr;
  for (JournalRecord& record : records) {
    if (!record.has_read()) continue;
    newest = record.mutable_read();
    for (const DecisionRecord& made : newest->decisions()) {
      decision.id = std::max<DecisionId>(decision.id, made.id() + 1);
    }
  }
  ASSERT_NE(newest, nullptr) << "the policies had answered";
  encode(decision, *newest->add_decisions());
}

/// Removes the decisions of the newest recorded answer that has some, and their outcomes. The
/// successor's policies decide more than recorded.
void remove_decisions(Records& records) {
  JournalRead* newest = nullptr;
  for (JournalRecord& record : records) {
    if (record.has_read() && record.read().decisions_size() > 0) newest = record.mutable_read();
  }
  ASSERT_NE(newest, nullptr) << "the policies had decided";
  std::set<DecisionId> removed;
  for (const DecisionRecord& made : newest->decisions()) removed.insert(made.id());
  newest->clear_decisions();
  for (JournalRecord& record : records) {
    if (!record.has_seen()) continue;
    auto& events = *record.mutable_seen()->mutable_observation()->mutable_events();
    const auto is_outcome = [&removed](const EventRecord& event) {
      return event.has_decided() && removed.contains(event.decided().decision());
    };
    events.erase(std::remove_if(events.begin(), events.end(), is_outcome), events.end());
  }
}

/// Kills the controller after two seconds, and changes its journal before the successor starts.
void change_journal(void (*change)(Records&)) {
  ASSERT_TRUE(eventually([] { return controllers().size() == 1; }));
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const pid_t controller = controllers().at(0);
  const pid_t supervisor = parent_of(controller);
  ASSERT_EQ(kill(supervisor, SIGSTOP), 0);
  ASSERT_EQ(kill(controller, SIGKILL), 0);
  EXPECT_TRUE(eventually([] { return controllers().empty(); }));
  for (const auto& entry : std::filesystem::directory_iterator(run_parent())) {
    const std::filesystem::path journal = entry.path() / "journal";
    if (!std::filesystem::exists(journal)) continue;
    std::ifstream file(journal, std::ios::binary);
    Records records = records_of({std::istreambuf_iterator<char>(file), {}});
    change(records);
    std::string bytes;
    for (const JournalRecord& record : records) bytes += framed(record.SerializeAsString());
    std::ofstream(journal, std::ios::binary | std::ios::trunc) << bytes;
  }
  EXPECT_EQ(kill(supervisor, SIGCONT), 0);
}

/// Checks that the report has one warning about a policy that answers otherwise than recorded.
void expect_one_difference(const Report& report) {
  const auto is_about_it = [](const std::string& warning) {
    return warning.find("policy 'predictive-rebalance' to answer as before the controller's "
                        "death, found a difference in the call at ") != std::string::npos;
  };
  EXPECT_EQ(std::ranges::count_if(report.warnings(), is_about_it), 1) << report.DebugString();
}

/// The recorded answer differs from the one that the policies give to the successor.
TEST(Controller, ASuccessorWhosePoliciesAnswerOtherwiseFollowsTheRecordAndWarns) {
  RunRequest asked = request({"run.steps=40", "faults=[{rank: 2, at_step: 6, slow: 4}]",
                              "policies=[{name: predictive-rebalance}]"});
  const Report calm = run_in_worker(kProgram, request({"run.steps=40"}));
  const std::string log = ::testing::TempDir() + "/otherwise.log";
  asked.set_record(log);
  const std::jthread rewriter([] { change_journal(add_wake); });
  const Report report = run_in_worker(kProgram, asked);
  expect_undisturbed(report, calm);
  EXPECT_EQ(report.controller_restarts(), 1u);
  EXPECT_GE(report.decisions(), 1u);
  expect_one_difference(report);
  std::filesystem::remove(log);
  expect_nothing_left();
}

/// The second fault makes the policy decide again after the takeover.
TEST(Controller, ASuccessorWhosePoliciesDecideLessOrMoreThanRecordedFollowsTheRecord) {
  const std::string folder = ::testing::TempDir() + fmt::format("orrery_count.{}", getpid());
  const std::vector<std::string> settings{
      "run.steps=40",
      "faults=[{rank: 2, at_step: 6, slow: 4}, {rank: 1, at_step: 25, slow: 4}]",
      "policies=[{name: predictive-rebalance}]",
      fmt::format("checkpoints={{folder: {}, every: 1000, keep: 1}}", folder)};
  const Report calm = run_in_worker(kProgram, request({"run.steps=40"}));
  for (const auto change : {add_decision, remove_decisions}) {
    SCOPED_TRACE(change == add_decision ? "less" : "more");
    std::filesystem::remove_all(folder);
    const std::jthread rewriter([change] { change_journal(change); });
    const Report report = run_in_worker(kProgram, request(settings));
    expect_undisturbed(report, calm);
    EXPECT_EQ(report.controller_restarts(), 1u);
    EXPECT_EQ(report.unfinished(), "");
    expect_one_difference(report);
  }
  std::filesystem::remove_all(folder);
  expect_nothing_left();
}

TEST(Controller, ItsFourthDeathEndsTheRunWithTheCause) {
  Killer killer(4, [] { return 0.2; });
  try {
    run_in_worker(kProgram, request({"run.steps=200"}));
    FAIL() << "the run went well";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    EXPECT_NE(error.message().find("killed by signal 9"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("3 times"), std::string::npos) << error.message();
  }
  EXPECT_EQ(killer.kills(), 4);
  expect_nothing_left();
}

TEST(Controller, WhoWasLeftOutStaysOutAndWhoIsStoppedMeanwhileIsReplaced) {
  const Report calm = run_in_worker(kProgram, request({"run.steps=40"}));
  std::atomic<bool> stopped = false;
  Killer killer(1, [&stopped] {
    EXPECT_TRUE(eventually([] { return agents().size() == 4; }));
    EXPECT_TRUE(eventually([] { return agents().size() == 3; }));  // rank 1 is gone
    // The policy decides, and the others go on.
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    stopped = kill(agents().back(), SIGSTOP) == 0;
    return 0.0;
  });
  const Report report =
      run_in_worker(kProgram, request({"run.steps=40", "faults=[{rank: 1, at_step: 2, kill: true}]",
                                       "policies=[{name: recover, parameters: {how: shrink}}]"}));
  EXPECT_TRUE(stopped);
  expect_undisturbed(report, calm);
  EXPECT_EQ(report.controller_restarts(), 1u);
  ASSERT_EQ(report.failures_size(), 2);
  for (const FailureReport& failure : report.failures()) EXPECT_FALSE(failure.has_replaced_s());
  expect_nothing_left();
}

}  // namespace
}  // namespace orrery::live
