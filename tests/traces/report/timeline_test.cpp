#include "traces/report/timeline.hpp"

#include <cstdio>
#include <fstream>
#include <functional>
#include <map>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/error.hpp"
#include "traces/perfetto.pb.h"

namespace orrery {
namespace {

perfetto::Trace written(const std::function<void(Timeline&)>& what) {
  const std::string path = ::testing::TempDir() + "timeline." + std::to_string(getpid());
  {
    Timeline timeline(path);
    what(timeline);
  }
  std::ifstream file(path, std::ios::binary);
  perfetto::Trace trace;
  EXPECT_TRUE(trace.ParseFromIstream(&file));
  std::remove(path.c_str());
  return trace;
}

TEST(Timeline, AFullDiskIsAnEnvironmentError) {
  Timeline timeline("/dev/full");
  timeline.track_named("rank 0", "compute");
  try {
    timeline.close();
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_NE(error.message().find("/dev/full"), std::string::npos);
  }
}

TEST(Timeline, ASecondCloseHasNoEffect) {
  const auto trace = written([](Timeline& timeline) {
    timeline.track_named("rank 0", "compute");
    timeline.close();
    timeline.close();
  });
  EXPECT_EQ(trace.packet_size(), 2);
}

TEST(Timeline, TracksAreMadeOnce) {
  const auto trace = written([](Timeline& timeline) {
    const auto a = timeline.track_named("rank 0", "compute");
    EXPECT_EQ(a, timeline.track_named("rank 0", "compute"));
    EXPECT_NE(a, timeline.track_named("rank 1", "compute"));
  });
  ASSERT_EQ(trace.packet_size(), 4);  // two processes, two tracks
  EXPECT_EQ(trace.packet(0).track_descriptor().process().process_name(), "rank 0");
  EXPECT_EQ(trace.packet(1).track_descriptor().parent_uuid(),
            trace.packet(0).track_descriptor().uuid());
}

TEST(Timeline, OverlappingSlicesGetLanes) {
  const auto trace = written([](Timeline& timeline) {
    const auto track = timeline.track_named("rank 0", "communication");
    timeline.slice(track, "a", 0, 10);
    timeline.slice(track, "b", 5, 15);
    timeline.slice(track, "c", 10, 20);
    timeline.instant(track, "fault", 12);
  });
  std::map<std::string, std::uint64_t> track_of;
  for (const auto& packet : trace.packet()) {
    if (!packet.has_track_event() || packet.track_event().name().empty()) continue;
    track_of[packet.track_event().name()] = packet.track_event().track_uuid();
    EXPECT_EQ(packet.trusted_packet_sequence_id(), 1u);
  }
  EXPECT_NE(track_of.at("a"), track_of.at("b"));
  EXPECT_EQ(track_of.at("a"), track_of.at("c"));
  EXPECT_EQ(trace.packet(trace.packet_size() - 1).timestamp(), 12u);
  EXPECT_EQ(trace.packet(trace.packet_size() - 1).track_event().type(),
            perfetto::TrackEvent::INSTANT);
}

TEST(Timeline, RefusesAFileItCannotWrite) { EXPECT_THROW(Timeline("/nowhere/timeline"), Error); }

}  // namespace
}  // namespace orrery
