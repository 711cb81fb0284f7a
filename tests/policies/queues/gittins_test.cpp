#include "policies/queues/gittins.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "policies/seam/byte_archive.hpp"
#include "tests/policies/queues/queue_harness.hpp"

namespace orrery {
namespace {

GittinsIndex learned(const std::vector<double>& took) {
  GittinsIndex index(took.size());
  for (const double each : took) index.add_service(each);
  return index;
}

/// Computes the index by its definition: over every service of an ended job.
double by_definition(const std::deque<double>& took, double had) {
  double best = 0;
  for (const double whole : took) {
    if (whole <= had) continue;
    double ending = 0, takes = 0;
    for (const double other : took) {
      if (other <= had) continue;
      ending += other <= whole ? 1 : 0;
      takes += std::min(other, whole) - had;
    }
    best = std::max(best, ending / takes);
  }
  return best;
}

TEST(GittinsIndex, ByHand) {
  // Two ended jobs took 1 and 10. A fresh job: half a chance for 1 (1/2 over 1 = 1/2 a unit), or a
  // whole one for (1 + 10) / 2: 2/11.
  EXPECT_DOUBLE_EQ(learned({1, 10}).of(0), 0.5);
  // Behind the first only the long one is left: 8 more.
  EXPECT_DOUBLE_EQ(learned({1, 10}).of(2), 1.0 / 8);
  // A job with more service than any ended job goes last.
  EXPECT_DOUBLE_EQ(learned({1, 10}).of(10), 0);
  EXPECT_DOUBLE_EQ(learned({}).of(0), 0);
  // Three that took 2 and one that took 100: 3/4 over 2.
  EXPECT_DOUBLE_EQ(learned({2, 2, 2, 100}).of(0), 3.0 / (3 * 2 + 2));
}

TEST(GittinsIndex, IsTheDefinitionToTheLastBit) {
  Rng rng(17);
  for (int round = 0; round < 60; ++round) {
    const std::size_t history = 1 + rng.below(40);
    const std::uint64_t most = round % 3 == 0 ? 6 : round % 3 == 1 ? 1000 : 1'000'000'000;
    GittinsIndex index(history);
    std::deque<double> newest;
    for (int job = 0; job < 60; ++job) {
      newest.push_back(static_cast<double>(rng.below(most)));
      index.add_service(newest.back());
      if (newest.size() > history) newest.pop_front();
      for (int look = 0; look < 4; ++look) {
        const double had =
            look == 0 ? newest[rng.below(newest.size())] : static_cast<double>(rng.below(most));
        ASSERT_EQ(index.of(had), by_definition(newest, had)) << round << " " << job;
      }
    }
  }
}

TEST(GittinsIndex, ContinuesFromASavedHistory) {
  Rng rng(3);
  GittinsIndex index(20);
  const auto add = [&rng](GittinsIndex& one, GittinsIndex& other) {
    const auto took = static_cast<double>(rng.below(1000));
    one.add_service(took);
    other.add_service(took);
  };
  GittinsIndex unused(20);
  for (int job = 0; job < 33; ++job) add(index, unused);
  std::string bytes;
  ByteWriter write(bytes);
  index.save(write);
  GittinsIndex restored(20);
  restored.add_service(1e9);
  ByteReader read(bytes);
  restored.load(read);
  for (int job = 0; job < 33; ++job) {  // the oldest are forgotten in the same order
    for (const double had : {0.0, 10.0, 500.0, 999.0}) ASSERT_EQ(index.of(had), restored.of(had));
    add(index, restored);
  }
}

TEST(Gittins, KeepsItsHistoryOverARestart) {
  const auto begin = [](QueueHarness& queue) {
    for (int job = 0; job < 3; ++job) queue.submit_job(1, 0);
    queue.ask_policy();
    queue.end(0);
    queue.ask_policy();
  };
  QueueHarness whole("gittins", 1, 4), restarted("gittins", 1, 4);
  begin(whole);
  begin(restarted);
  const Archive saved = restarted.saved();
  restarted.restart_policy(&saved);
  for (QueueHarness* queue : {&whole, &restarted}) {
    queue->end(1);  // the first call after the restart counts this end too
    queue->ask_policy();
  }
  const Archive after = restarted.saved();
  EXPECT_EQ(whole.saved(), after);
  std::uint64_t generator = 0, ends = 0;  // the stack writes these before the policy
  std::string name, own;
  std::uint32_t version = 0;
  ByteReader read(after);
  read(generator);
  read(name);
  read(version);
  read(own);
  ByteReader read_own(own);
  read_own(ends);
  EXPECT_EQ(ends, 2u);
}

}  // namespace
}  // namespace orrery
