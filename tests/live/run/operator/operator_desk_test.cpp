#include "live/run/operator/operator_desk.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "live/run/files/run_files.hpp"
#include "live/run/files/run_folder.hpp"

namespace orrery::live {
namespace {

struct Staffed {
  RunFolder folder;
  std::vector<Event> happened;
  std::vector<RemovalOrder> announced;
  std::string objection;
  OperatorDesk desk{folder.path(),
                    {},
                    {.objection = [this](const ParameterSet&) { return objection; },
                     .happen = [this](Event event) { happened.push_back(std::move(event)); },
                     .announce =
                         [this](const RemovalOrder& order) {
                           announced.push_back(order);
                           return objection;
                         }}};

  void leave(const std::string& name, const std::string& text) {
    std::ofstream(folder.path() + "/" + name) << text;
  }
  bool there(const std::string& name) const {
    return std::filesystem::exists(folder.path() + "/" + name);
  }
};

constexpr const char* kSet =
    R"({"set": {"policy": "recover", "parameter": "how", "value": "replace"}})";

void until_the_next_look() { std::this_thread::sleep_for(std::chrono::milliseconds(220)); }

Decision question() { return {.id = 12, .what = Save{JobId{0}}, .why = "because"}; }

TEST(OperatorDesk, AnOrderIsCarriedOutOnceAndItsFileGoesOnceItsEffectWasShown) {
  Staffed run;
  run.leave("order-1.json", kSet);
  EXPECT_FALSE(run.desk.apply_orders(0, true, true));
  ASSERT_EQ(run.happened.size(), 1u);
  EXPECT_EQ(std::get<ParameterSet>(run.happened[0]).value, "replace");
  until_the_next_look();
  run.desk.apply_orders(0, true, false);
  EXPECT_TRUE(run.there("order-1.json"));
  until_the_next_look();
  run.desk.apply_orders(0, true, true);
  for (int i = 0; i < 1000 && run.there("order-1.json"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(run.there("order-1.json"));
  EXPECT_EQ(run.happened.size(), 1u);
}

TEST(OperatorDesk, ARemovalIsAnnounced) {
  Staffed run;
  run.leave("order-1.json", R"({"drain": {"part": "gpu", "index": 3, "in_s": 5}})");
  run.desk.apply_orders(0, true, true);
  ASSERT_EQ(run.announced.size(), 1u);
  EXPECT_EQ(run.announced[0].part, (Part{PartKind::gpu, 3}));
  EXPECT_TRUE(run.happened.empty());
}

/// The command line gives the next order the first free name.
TEST(OperatorDesk, AnOrderWithTheNameOfARemovedOneIsAppliedToo) {
  Staffed run;
  for (std::size_t orders = 1; orders <= 3; ++orders) {
    run.leave("order-1.json", kSet);
    for (int i = 0; i < 40 && run.happened.size() < orders; ++i) {
      run.desk.apply_orders(0, true, true);
      until_the_next_look();
    }
    ASSERT_EQ(run.happened.size(), orders);
    for (int i = 0; i < 1000 && run.there("order-1.json"); ++i) {
      run.desk.apply_orders(0, true, true);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_FALSE(run.there("order-1.json"));
  }
}

/// A folder with an order's name cannot be read as an order, and its removal fails.
TEST(OperatorDesk, AnOrderWhoseFileCannotBeRemovedIsAppliedOnce) {
  Staffed run;
  std::filesystem::create_directory(run.folder.path() + "/order-1.json");
  run.leave("order-1.json/file", "");
  for (int i = 0; i < 4; ++i) {
    run.desk.apply_orders(0, true, true);
    until_the_next_look();
  }
  run.desk.show_last({});
  std::ifstream file(run.folder.path() + "/" + kStatusFile);
  const std::string status{std::istreambuf_iterator<char>(file), {}};
  const std::string refusal = "an order is refused";
  const std::size_t first = status.find(refusal);
  ASSERT_NE(first, std::string::npos) << status;
  EXPECT_EQ(status.find(refusal, first + 1), std::string::npos) << status;
  std::filesystem::remove_all(run.folder.path() + "/order-1.json");
}

TEST(OperatorDesk, WhatCannotBeSetChangesNothing) {
  Staffed run;
  run.objection = "no such policy";
  run.leave("order-1.json", kSet);
  run.desk.apply_orders(0, true, true);
  EXPECT_TRUE(run.happened.empty());
}

TEST(OperatorDesk, BeforeTheTrainingOrdersWait) {
  Staffed run;
  run.leave("order-1.json", kSet);
  run.leave("stop", "");
  EXPECT_FALSE(run.desk.apply_orders(0, false, true));
  EXPECT_TRUE(run.happened.empty());
}

TEST(OperatorDesk, AStopIsHandedOverWithItsCheckpoint) {
  Staffed run;
  run.leave("stop", "checkpoint");
  const auto order = run.desk.apply_orders(0, true, true);
  ASSERT_TRUE(order);
  EXPECT_TRUE(order->checkpoint());
  EXPECT_EQ(order->reason(), "stopped by the operator");
}

TEST(OperatorDesk, AQuestionStandsUntilItIsAnsweredOrTooOld) {
  Staffed run;
  const auto open = [&run] {
    RunStatus status;
    run.desk.fill(status);
    return status.questions.size();
  };
  run.desk.add_question(question(), 0);
  EXPECT_EQ(open(), 1u);
  run.leave("order-1.json", R"({"verdict": {"decision": 12, "accepted": true}})");
  run.desk.apply_orders(0, true, true);
  EXPECT_EQ(open(), 0u);
  EXPECT_EQ(run.happened.size(), 1u);  // somebody has to look for the answer
  const std::vector<Verdict> answers = run.desk.take_verdicts();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0].accepted);
  EXPECT_TRUE(run.desk.take_verdicts().empty());

  run.desk.add_question(question(), 0);
  run.desk.add_event(Decided{12, Outcome::rejected, "too late"}, 0);
  EXPECT_EQ(open(), 0u);
  run.desk.add_question(question(), 0);
  until_the_next_look();
  run.desk.apply_orders(61 * kNanosPerSecond, true, true);
  EXPECT_EQ(open(), 0u);
}

TEST(OperatorDesk, WarningsAreInTheReport) {
  Staffed run;
  run.desk.add_warning(0, "the disk is slow");
  Report report;
  run.desk.fill(report);
  ASSERT_EQ(report.warnings_size(), 1);
  EXPECT_EQ(report.warnings(0), "the disk is slow");
}

}  // namespace
}  // namespace orrery::live
