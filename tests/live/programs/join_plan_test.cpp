#include "live/programs/join_plan.hpp"

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "live/group/meeting_point.hpp"

namespace orrery::live {
namespace {

using Sent = std::vector<std::pair<std::size_t, Fields>>;

/// Plan of a join of rank 1 among ranks 0, 2 and 3, with the messages that it has sent.
struct Planned {
  Sent sent;
  JoinPlan plan{1, 7, "state", {0, 2, 3}, [this](std::size_t rank, const Fields& fields) {
                  sent.emplace_back(rank, fields);
                }};
  Sent drain() { return std::exchange(sent, {}); }
};

Sent to_all(const Fields& fields) { return {{0, fields}, {2, fields}, {3, fields}}; }

TEST(JoinPlan, AllMeetAfterTheFurthestStepAndTheFirstGivesItsState) {
  Planned join;
  EXPECT_EQ(join.drain(), to_all({"halt", "7"}));
  join.plan.handle_answer(3, {"count", "7", "4"});
  join.plan.handle_answer(0, {"count", "7", "5"});
  join.plan.handle_answer(2, {"count", "6", "9"});  // an earlier join
  join.plan.handle_answer(2, {"beat"});             // no answer
  EXPECT_EQ(join.drain(), Sent{});
  join.plan.handle_answer(2, {"count", "7", "4"});
  EXPECT_EQ(join.drain(), to_all({"meet", "7", "6"}));
  EXPECT_EQ(join.plan.step(), 6u);
  join.plan.handle_answer(0, {"met", "7", "a", "11"});
  join.plan.handle_answer(0, {"met", "7", "a", "11"});  // counts once
  join.plan.handle_answer(2, {"met", "7", "a", "11", "b", "3"});
  EXPECT_EQ(join.drain(), Sent{});
  join.plan.handle_answer(3, {"met", "7", "a", "11", "b", "3"});
  EXPECT_EQ(join.drain(), (Sent{{0, {"give", "7", "state"}}}));
  EXPECT_FALSE(join.plan.is_given());
  join.plan.handle_answer(2, {"given", "7"});  // was not asked
  EXPECT_FALSE(join.plan.is_given());
  join.plan.handle_answer(0, {"given", "7"});
  EXPECT_EQ(join.drain(), (Sent{{1, {"join", "state", "a", "11", "b", "3"}}}));
  EXPECT_TRUE(join.plan.is_given());
  join.plan.resume_members(true);
  EXPECT_EQ(join.drain().size(), 4u);
}

TEST(JoinPlan, ALostMemberIsNotWaitedFor) {
  Planned join;
  join.plan.handle_answer(0, {"count", "7", "5"});
  join.plan.handle_answer(2, {"count", "7", "5"});
  join.drain();
  join.plan.remove_member(3);
  EXPECT_EQ(join.drain(), (Sent{{0, {"meet", "7", "6"}}, {2, {"meet", "7", "6"}}}));
  join.plan.handle_answer(0, {"met", "7"});
  join.plan.handle_answer(2, {"met", "7"});
  EXPECT_EQ(join.drain(), (Sent{{0, {"give", "7", "state"}}}));
  join.plan.remove_member(0);  // it dies while it writes: the next one is asked
  EXPECT_EQ(join.drain(), (Sent{{2, {"give", "7", "state"}}}));
  join.plan.handle_answer(2, {"given", "7"});
  EXPECT_TRUE(join.plan.is_given());
}

/// Ranks that train steps with a collective operation each, and meet as often as asked.
class TrainingModel {
 public:
  static constexpr std::size_t kRanks = 3;
  static constexpr std::uint64_t kSteps = 60;

  explicit TrainingModel(std::uint64_t seed) {
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      points_.push_back(std::make_unique<MeetingPoint>([this, rank](const Fields& fields) {
        const std::lock_guard<std::mutex> lock(mutex_);
        answers_.emplace_back(rank, fields);
      }));
    }
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      threads_.emplace_back([this, rank, seed] { train(rank, Rng(seed * kRanks + rank)); });
    }
  }

  /// Plans joins until all ranks have ended; a tenth of them is cancelled at a random instant.
  /// Returns the number of completed joins.
  int run_joins(std::uint64_t seed) {
    Rng random(seed);
    int completed = 0;
    for (std::uint64_t number = 1; ended_ < kRanks; ++number) {
      JoinPlan plan(kRanks, number, "state", {0, 1, 2}, [this](std::size_t rank, const Fields& f) {
        if (rank < kRanks) points_[rank]->handle_message(f);
      });
      const bool is_cancelled = random.below(10) == 0;
      std::uint64_t polls_left = random.below(200);
      while (!plan.is_given() && ended_ == 0 && !(is_cancelled && polls_left-- == 0)) {
        pass_answers(plan);
        std::this_thread::yield();
      }
      if (plan.is_given()) {
        ++completed;
        for (const auto& marked : marked_) EXPECT_EQ(marked, plan.step());
      }
      plan.resume_members(false);
      if (ended_ > 0) break;
    }
    for (std::thread& thread : threads_) thread.join();
    return completed;
  }

 private:
  void train(std::size_t rank, Rng random) {
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      reduce(step);
      if (random.below(4) == 0) std::this_thread::yield();
      marked_[rank] = step;
      if (points_[rank]->mark_step(step)) meet(rank);
    }
    ++ended_;
  }

  /// Stands for the all-reduce of a step: no rank ends it before all have begun it.
  void reduce(std::uint64_t step) {
    std::unique_lock<std::mutex> lock(reducing_);
    ++begun_;
    reduced_.notify_all();
    reduced_.wait(lock, [this, step] { return begun_ >= step * kRanks; });
  }

  void meet(std::size_t rank) {
    points_[rank]->announce_arrival({"group", "1"});
    while (true) {
      const Fields next = points_[rank]->wait_for_instruction();
      if (next[0] == "resume") return;
      const std::lock_guard<std::mutex> lock(mutex_);
      answers_.emplace_back(rank, Fields{"given", next.at(1)});
    }
  }

  void pass_answers(JoinPlan& plan) {
    std::deque<std::pair<std::size_t, Fields>> answers;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      answers.swap(answers_);
    }
    for (const auto& [rank, fields] : answers) plan.handle_answer(rank, fields);
  }

  std::vector<std::unique_ptr<MeetingPoint>> points_;
  std::vector<std::thread> threads_;
  std::mutex mutex_, reducing_;
  std::deque<std::pair<std::size_t, Fields>> answers_;
  std::condition_variable reduced_;
  std::uint64_t begun_ = 0;
  std::array<std::atomic<std::uint64_t>, kRanks> marked_{};
  std::atomic<std::size_t> ended_{0};
};

TEST(JoinPlan, RanksOfAllSchedulesMeetAtOneStepAndNoneIsHeld) {
  int completed = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) completed += TrainingModel(seed).run_joins(seed);
  EXPECT_GT(completed, 8);
}

}  // namespace
}  // namespace orrery::live
