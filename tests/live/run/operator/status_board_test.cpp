#include "live/run/operator/status_board.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "live/run/files/run_files.hpp"
#include "live/run/files/run_folder.hpp"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

RunStatus some() {
  RunStatus status;
  status.scenario = "a \"quoted\" name";
  status.phase = "training";
  status.step = 12;
  status.steps = 100;
  status.losses = 1;
  status.saved = 10;
  status.ranks = {{.rank = 0, .state = "working", .pid = 7, .step = 12, .micro_batches = 3},
                  {.rank = 1, .state = "lost"}};
  return status;
}

TEST(StatusBoard, ShowsWhatTheRunStandsAtAndWhatHasHappened) {
  const RunFolder folder;
  StatusBoard board(folder.path(), {});
  EXPECT_TRUE(board.is_due());
  board.add_line(2 * kNanosPerSecond, describe(RanksLost{JobId{0}, {RankId{1}}, {2}}));
  board.add_line(0, describe(Tick{}));  // no news
  board.show_last(some());
  EXPECT_FALSE(board.is_due());
  const auto shown = nlohmann::json::parse(contents(folder.path() + "/" + kStatusFile));
  EXPECT_EQ(shown["step"], 12);
  EXPECT_EQ(shown["saved_step"], 10);
  EXPECT_EQ(shown["ranks"][1]["state"], "lost");
  EXPECT_TRUE(shown["removals"].empty());
  EXPECT_TRUE(shown["slower"].empty());
  ASSERT_EQ(shown["events"].size(), 1u);
  EXPECT_EQ(shown["events"][0]["what"], "lost rank 1; membership 2");
  EXPECT_EQ(shown["events"][0]["at_s"], 2.0);
}

TEST(StatusBoard, ALinkInItsPlaceIsReplacedNotFollowed) {
  const RunFolder folder;
  const std::string mine = folder.path() + "/mine";
  std::ofstream(mine) << "the user's";
  fs::create_symlink(mine, folder.path() + "/" + kStatusFile + ".new");
  fs::create_symlink(mine, folder.path() + "/" + kStatusFile);
  StatusBoard board(folder.path(), {});
  board.show_last(some());
  EXPECT_EQ(contents(mine), "the user's");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder.path() + "/" + kStatusFile)));
}

TEST(StatusBoard, MetricsAreOfPrometheus) {
  const RunFolder folder;
  const std::string path = folder.path() + "/run.prom";
  {
    StatusBoard board(folder.path(), path);
    board.publish_status(some());
    for (int i = 0; i < 1000 && !fs::exists(path); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  const std::string text = contents(path);
  EXPECT_EQ(text, prometheus_text(some()));
  EXPECT_NE(text.find("# TYPE orrery_steps_total counter\n"
                      "orrery_steps_total{scenario=\"a \\\"quoted\\\" name\"} 12\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("rank=\"1\"} 0\n"), std::string::npos);
}

TEST(StatusBoard, WhatADriverTellsOfGpusHasTheNamesOfDcgm) {
  RunStatus status = some();
  EXPECT_EQ(prometheus_text(status).find("DCGM"), std::string::npos) << "no driver, no figure";
  status.ranks.at(1).device.set_utilization(0.25);
  status.ranks.at(1).device.set_memory_used(3 << 20);
  const std::string text = prometheus_text(status);
  const std::string of = "{scenario=\"a \\\"quoted\\\" name\",gpu=\"1\"} ";
  EXPECT_NE(text.find("# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL" + of + "25\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("DCGM_FI_DEV_FB_USED" + of + "3\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("DCGM_FI_DEV_POWER_USAGE"), std::string::npos) << text;
}

TEST(StatusBoard, APlannedRemovalIsShown) {
  Removal removal;
  removal.at = 90 * kNanosPerSecond;
  removal.back_at_step = 40;
  const Part node{PartKind::node, 1};
  EXPECT_EQ(describe(PartChanged{node, {.removal = removal}}),
            "node 1 is to be removed at 90.0 s; back before step 40");
  EXPECT_EQ(describe(PartChanged{node, {.health = Health::lost, .removal = removal}}),
            "node 1 is removed as announced");
  EXPECT_EQ(describe(PartChanged{node, {}}), "");
  EXPECT_EQ(describe(PartChanged{node, {.rate = 0.25}}), "node 1 works at 25 % of its rate");
  const RunFolder folder;
  StatusBoard board(folder.path(), {});
  RunStatus status = some();
  status.removals = {{node, Health::lost, removal}};
  status.slower = {{{PartKind::gpu, 3}, 0.5, 12}};
  board.show_last(status);
  const auto shown = nlohmann::json::parse(contents(folder.path() + "/" + kStatusFile));
  EXPECT_EQ(shown["removals"][0]["part"], "node 1");
  EXPECT_EQ(shown["removals"][0]["removed"], true);
  EXPECT_EQ(shown["removals"][0]["at_s"], 90);
  EXPECT_TRUE(shown["removals"][0]["at_step"].is_null());
  EXPECT_EQ(shown["removals"][0]["back_at_step"], 40);
  EXPECT_EQ(shown["slower"],
            nlohmann::json::parse(R"([{"part": "gpu 3", "rate": 0.5, "since_s": 12}])"));
}

}  // namespace
}  // namespace orrery::live
