#include "sim/training/sim_timeline.hpp"

#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/sim/run.hpp"
#include "traces/perfetto.pb.h"

namespace orrery::sim {
namespace {

TEST(SimTimeline, ShowsClassesStagesAndWhatTheyDid) {
  const std::string path = ::testing::TempDir() + "timeline." + std::to_string(getpid());
  const LoadedScenario loaded = testing::small_scenario(
      4, 2, 4, "faults:\n  - {at_step: 3, rank: 5, kill: true}\n");
  testing::simulate(loaded, {.full_detail = false, .record = {}, .timeline = path});
  std::ifstream file(path, std::ios::binary);
  perfetto::Trace trace;
  ASSERT_TRUE(trace.ParseFromIstream(&file));
  std::remove(path.c_str());

  std::set<std::string> processes, names;
  std::map<std::uint64_t, int> open;
  for (const auto& packet : trace.packet()) {
    processes.insert(packet.track_descriptor().process().process_name());
    const auto& event = packet.track_event();
    names.insert(event.name());
    if (event.type() == perfetto::TrackEvent::SLICE_BEGIN) ++open[event.track_uuid()];
    if (event.type() == perfetto::TrackEvent::SLICE_END) --open[event.track_uuid()];
  }
  EXPECT_TRUE(processes.contains("replica 0 x4, stage 0"));
  EXPECT_TRUE(processes.contains("replica 0 x4, stage 1"));
  for (const char* name : {"forward 0", "backward 7", "optimizer", "gradient bucket 0",
                           "forward 0 to stage 1", "rank 5 killed"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  for (const auto& [track, depth] : open) EXPECT_EQ(depth, 0) << track;
}

TEST(SimTimeline, RefusesAFileItCannotWrite) {
  EXPECT_THROW(SimTimeline("/nowhere/timeline"), Error);
}

}  // namespace
}  // namespace orrery::sim
