// Both ends of a policy in another process, connected by a thread: which telemetry is sent.
#include "policies/run/remote_policy.hpp"

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "policies/run/policy_answerer.hpp"
#include "policies/seam/drive.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

using Tables = std::map<std::pair<SampleTable, JobId>, SampleRows>;

constexpr JobId kFirst{0}, kSecond{1};
constexpr std::pair kRanksOfFirst{SampleTable::ranks, kFirst};
constexpr std::pair kRanksOfSecond{SampleTable::ranks, kSecond};
constexpr std::pair kDevicesOfSecond{SampleTable::devices, kSecond};

/// Telemetry of two jobs, as the test sets it.
class TwoJobs : public ColumnSamples {
 public:
  TwoJobs() {
    for (const JobId job : {kFirst, kSecond}) {
      tables[{SampleTable::ranks, job}] = {.ids = {0, 1, 2}, .to = {}, .steps = {5, 5, 5}};
      tables[{SampleTable::devices, job}] = {.ids = {4, 5, 6}, .to = {}, .steps = {}};
    }
  }
  RankSummary summary(JobId, std::uint32_t) override { return {}; }
  std::span<const CollectiveSample> collectives(JobId) override { return {}; }
  void begin_call() { clear_tables(); }

  Tables tables;
  double time = 1;  ///< micro_batch_time of all ranks

 private:
  std::shared_ptr<const SampleRows> make_rows(SampleTable table, JobId job) override {
    return std::make_shared<SampleRows>(tables.at({table, job}));
  }
  std::shared_ptr<const SampleColumn> make_column(SampleField field, JobId job) override {
    auto column = std::make_shared<SampleColumn>();
    column->values.assign(tables.at({table_of(field), job}).size(), time);
    return column;
  }
};

/// Telemetry of two jobs whose reads are remembered.
class RecordedJobs : public ColumnSamples {
 public:
  explicit RecordedJobs(TwoJobs& source) : source_(source) {}
  RankSummary summary(JobId, std::uint32_t) override { return {}; }
  std::span<const CollectiveSample> collectives(JobId) override { return {}; }
  Samples* unrecorded() override { return &source_; }
  void begin_call() {
    clear_tables();
    source_.begin_call();
    reads.clear();
  }

  std::vector<std::string> reads;  ///< reads of the newest call, in order

 private:
  std::shared_ptr<const SampleRows> make_rows(SampleTable table, JobId job) override {
    const bool is_of_ranks = table == SampleTable::ranks;
    reads.push_back((is_of_ranks ? "ranks " : "devices ") + std::to_string(job.value));
    return source_.rows(table, job);
  }
  std::shared_ptr<const SampleColumn> make_column(SampleField field, JobId job) override {
    reads.push_back("times " + std::to_string(job.value));
    return source_.column(field, job);
  }
  TwoJobs& source_;
};

/// Policy that reads two tables of both jobs, and remembers them.
class TableReader : public Policy {
 public:
  Needs needs() const override { return {}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation& seen, DecisionList&) override {
    if (!looks) return;
    for (const JobId job : {kFirst, kSecond}) {
      times[job] = seen.samples.column(SampleField::micro_batch_time, job)->values;
      tables[{SampleTable::ranks, job}] = *seen.samples.rows(SampleTable::ranks, job);
      tables[{SampleTable::devices, job}] = *seen.samples.rows(SampleTable::devices, job);
    }
  }
  void save(Archive& archive) const override { archive = state; }
  void load(const Archive& archive) override { state = archive; }

  Tables tables;
  std::map<JobId, std::vector<double>> times;
  std::string state;
  bool looks = true;
};

template <class Message>
class Mailbox {
 public:
  void push(Message message) {
    const std::scoped_lock lock(mutex_);
    messages_.push_back(std::move(message));
    changed_.notify_one();
  }
  Message pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !messages_.empty(); });
    Message message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> messages_;
};

/// A run and its policy, which answers in another thread.
class Connection : public PolicyChannel {
 public:
  explicit Connection(Policy& policy) : policy_(policy), thread_([this] { serve(); }) {}
  ~Connection() override {
    to_policy_.push({});  // a message without a question ends the thread
    thread_.join();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  template <class Source>
  void observe(Source& samples) {
    samples.begin_call();
    const World world(cluster_);
    DecisionList decisions;
    remote_.observe(context_, toy::seen_of(world, {}, samples, 0, calls_++), decisions);
  }
  /// Replaces the policy's end by a new one, which has had no telemetry.
  void reset_answerer() { renew_ = true; }
  RemotePolicy& remote() { return remote_; }
  /// Returns the number of tables whose rows were sent since the last call.
  std::size_t drain_rows_sent() { return std::exchange(rows_sent_, 0); }
  /// Returns the number of columns that were sent alone since the last call.
  std::size_t drain_columns_sent() { return std::exchange(columns_sent_, 0); }

  void send_message(const WorkerMessage& message) override {
    rows_sent_ += message.has_read() && message.read().has_rows();
    columns_sent_ += message.has_read() && message.read().has_values();
    to_policy_.push(message);
  }
  PolicyAnswer receive_answer() override { return to_run_.pop(); }

 private:
  void serve() {
    std::optional<PolicyAnswerer> answerer;
    WorkerMessage telemetry;
    const auto fetch = [&](const PolicyAnswer& request) -> const SamplesRead* {
      to_run_.push(request);
      if (request.in_hand()) return nullptr;
      telemetry = to_policy_.pop();
      return &telemetry.read();
    };
    while (true) {
      const WorkerMessage message = to_policy_.pop();
      if (!message.has_ask()) return;
      if (!answerer || std::exchange(renew_, false)) answerer.emplace(policy_, cluster_, 1);
      PolicyAnswer answer;
      try {
        answer = answerer->answer_question(message.ask(), fetch);
      } catch (const std::exception& error) {
        answer.set_failure(error.what());
      }
      to_run_.push(std::move(answer));
    }
  }

  Policy& policy_;
  const Cluster cluster_ = toy::cluster();
  Rng rng_ = policy_rng(1);
  Context context_{rng_, {}};
  Mailbox<WorkerMessage> to_policy_;
  Mailbox<PolicyAnswer> to_run_;
  RemotePolicy remote_{*this};
  std::uint64_t calls_ = 0;
  std::size_t rows_sent_ = 0, columns_sent_ = 0;
  bool renew_ = false;  ///< written and read between a question and its answer only
  std::thread thread_;
};

TEST(RemotePolicy, RowsAreSentOnlyWhenTheyHaveChanged) {
  TwoJobs source;
  TableReader policy;
  Connection run(policy);
  const auto rows_of_a_call = [&] {
    run.observe(source);
    EXPECT_EQ(policy.tables, source.tables);
    for (const auto& [job, times] : policy.times) {
      const std::size_t ranks = source.tables.at({SampleTable::ranks, job}).size();
      EXPECT_EQ(times, std::vector<double>(ranks, source.time));
    }
    return run.drain_rows_sent();
  };
  EXPECT_EQ(rows_of_a_call(), 4u);
  source.time = 2;
  EXPECT_EQ(rows_of_a_call(), 0u) << "values change, rows do not";
  source.tables[kRanksOfFirst] = {.ids = {0, 2}, .to = {}, .steps = {5, 5}};
  EXPECT_EQ(rows_of_a_call(), 1u) << "a lost rank";
  source.tables[kRanksOfSecond] = {.ids = {0, 1, 2, 3}, .to = {}, .steps = {5, 5, 5, 5}};
  EXPECT_EQ(rows_of_a_call(), 1u) << "a new rank";
  source.tables[kRanksOfSecond].steps.assign(4, 6);
  EXPECT_EQ(rows_of_a_call(), 1u) << "a new step";
  source.tables[kDevicesOfSecond].ids[2] = 7;
  EXPECT_EQ(rows_of_a_call(), 1u) << "a move";
  source.tables[kRanksOfFirst] = {};
  EXPECT_EQ(rows_of_a_call(), 1u) << "no row is left";
  EXPECT_EQ(rows_of_a_call(), 0u);
}

TEST(RemotePolicy, ANewEndAndALoadedPolicyHaveRows) {
  TwoJobs source;
  TableReader policy;
  Connection run(policy);
  run.observe(source);
  EXPECT_EQ(run.drain_rows_sent(), 4u);
  policy.tables.clear();
  run.remote().load("another state");
  run.observe(source);
  EXPECT_EQ(policy.state, "another state");
  EXPECT_EQ(policy.tables, source.tables);
  EXPECT_EQ(run.drain_rows_sent(), 0u);
  policy.tables.clear();
  run.reset_answerer();
  run.observe(source);
  EXPECT_EQ(policy.tables, source.tables);
  EXPECT_EQ(run.drain_rows_sent(), 4u) << "the new end holds no rows";
  TableReader other;
  Connection next(other);
  next.observe(source);
  EXPECT_EQ(other.tables, source.tables);
  EXPECT_EQ(next.drain_rows_sent(), 4u);
}

TEST(RemotePolicy, ColumnsOfTheLastTwoCallsComeWithTheQuestionAndOnlyReadsAreRecorded) {
  TwoJobs source;
  RecordedJobs recorded(source);
  TableReader policy;
  Connection run(policy);
  std::vector<std::size_t> columns_sent;
  for (int call = 0; call < 9; ++call) {
    source.time = call;
    if (call == 4) source.tables[kRanksOfFirst] = {.ids = {0, 2}, .to = {}, .steps = {5, 5}};
    if (call == 5) source.tables[kRanksOfSecond].steps.assign(3, 6);
    policy.looks = call != 5;
    policy.tables.clear();
    run.observe(recorded);
    columns_sent.push_back(run.drain_columns_sent());
    if (!policy.looks) {
      EXPECT_TRUE(recorded.reads.empty());
      continue;
    }
    EXPECT_EQ(policy.tables, source.tables) << call;
    const std::size_t ranks = source.tables.at(kRanksOfFirst).size();
    EXPECT_EQ(policy.times[kFirst], std::vector<double>(ranks, call));
    EXPECT_EQ(recorded.reads, (std::vector<std::string>{"ranks 0", "times 0", "devices 0",
                                                        "ranks 1", "times 1", "devices 1"}));
  }
  EXPECT_EQ(columns_sent, (std::vector<std::size_t>{2, 2, 2, 0, 0, 0, 2, 2, 0}));
}

TEST(RemotePolicy, ColumnsOfASourceThatMayNotBeReadAheadAreSentOnRequest) {
  TwoJobs source;
  TableReader policy;
  Connection run(policy);
  for (int call = 0; call < 5; ++call) {
    run.observe(source);
    EXPECT_EQ(run.drain_columns_sent(), 2u) << call;
  }
}

TEST(WorkerMessages, NothingOfAnEarlierMessageIsLeft) {
  WorkerMessage first, second, last;
  first.mutable_read()->set_column(2);
  first.mutable_read()->mutable_rows()->add_steps(7);
  for (const double value : {1.0, 2.0, 3.0}) {
    first.mutable_read()->mutable_values()->add_values(value);
  }
  second.mutable_read()->mutable_values()->add_values(4);
  last.mutable_progress()->set_steps(9);
  WorkerMessage question, empty;
  *question.mutable_ask()->add_ahead() = first.read();
  empty.mutable_ask()->add_ahead();
  WorkerMessage parsed;
  for (const WorkerMessage& each :
       {first, second, last, first, last, second, question, empty, first, question}) {
    ASSERT_TRUE(parse_message(each.SerializeAsString(), parsed));
    EXPECT_EQ(parsed.SerializeAsString(), each.SerializeAsString());
  }
  EXPECT_FALSE(parse_message("no message", parsed));
}

}  // namespace
}  // namespace orrery
