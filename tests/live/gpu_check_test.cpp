// Parts of tests/live/gpu.sh that need no GPU: its sections are the program's and the page's, the
// page claims only measured results, and the judgement of measurements.
#include "tests/live/gpu_check.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include <gtest/gtest.h>

namespace orrery::live::gpu_check {
namespace {

constexpr std::size_t kSections = 9;

struct Output {
  std::string text;
  int code;
};

Output run(const std::string& command) {
  std::FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  std::string text;
  std::array<char, 4096> piece{};
  for (std::size_t got; (got = fread(piece.data(), 1, piece.size(), pipe)) > 0;) {
    text.append(piece.data(), got);
  }
  return {text, WEXITSTATUS(pclose(pipe))};
}

const std::string kScript = ORRERY_SOURCE_DIR "/tests/live/gpu.sh";

std::string page() {
  std::ifstream file(ORRERY_SOURCE_DIR "/docs/gpu.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(GpuScript, ItsSectionsAreThoseOfThePageInTheirOrder) {
  std::istringstream sections(run(kScript + " --dry-run").text);
  std::size_t at = 0, count = 0;
  for (std::string line; std::getline(sections, line); ++count) {
    const std::string heading = "\n## " + line.substr(line.find(' ') + 1) + "\n";
    at = page().find(heading, at);
    ASSERT_NE(at, std::string::npos) << heading;
  }
  EXPECT_EQ(count, kSections);
}

TEST(GpuScript, ThePageSaysThatNothingWasMeasuredOrWhenAndOnWhat) {
  const std::string text = page();
  const bool nothing = text.find("**Nothing was measured on a GPU.**") != std::string::npos;
  const bool measured = text.find("Measured by `tests/live/gpu.sh` on 20") != std::string::npos;
  EXPECT_NE(nothing, measured);
  if (nothing) {
    EXPECT_EQ(text.find("**passed**"), std::string::npos);
  }
}

TEST(GpuScript, WithoutABuildItSaysSoAndLeavesThePageAlone) {
  const std::string before = page();
  const Output output = run("BUILD=/no/such/folder " + kScript);
  EXPECT_EQ(output.code, 4);
  EXPECT_NE(output.text.find("./dev build"), std::string::npos);
  EXPECT_EQ(page(), before);
}

/// The script with a shell script in gpu_check's place.
class GpuScriptWithAFake : public testing::Test {
 protected:
  GpuScriptWithAFake() { std::filesystem::create_directories(folder_ + "/bin"); }
  ~GpuScriptWithAFake() override { std::filesystem::remove_all(folder_); }

  /// Runs the script; `cases`: body of a `case` over the section's name; other sections pass.
  Output run_with(const std::string& cases, const std::string& settings = "") {
    const std::string program = folder_ + "/bin/gpu_check";
    std::ofstream(program) << "#!/bin/sh\ncase $1 in\n" << cases << "*) echo it holds ;;\nesac\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    const std::string places = "BUILD=" + folder_ + " PAGE=" + folder_ + "/gpu.md ";
    return run(places + settings + " " + kScript);
  }
  std::string written() const {
    std::ifstream file(folder_ + "/gpu.md");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Returns the number of lines of the page's table with this verdict.
  std::size_t verdicts(const std::string& verdict) const {
    std::istringstream lines(written());
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("| ") && line.ends_with("| " + verdict + " |")) ++count;
    }
    return count;
  }

  const std::string folder_ = testing::TempDir() + "orrery_gpu." + std::to_string(getpid());
};

TEST_F(GpuScriptWithAFake, AllPassedIsNought) {
  EXPECT_EQ(run_with("device) echo Fake GPU ;;\n").code, 0);
  EXPECT_EQ(verdicts("passed"), kSections);
  EXPECT_NE(written().find(": Fake GPU\n"), std::string::npos);
  EXPECT_NE(written().find("it holds"), std::string::npos);
}

TEST_F(GpuScriptWithAFake, ASkippedSectionIsNotPassed) {
  const Output output = run_with("nccl-one) echo no libnccl; exit 4 ;;\n");
  EXPECT_EQ(output.code, 4);
  EXPECT_EQ(verdicts("skipped"), 1u);
  EXPECT_EQ(verdicts("passed"), kSections - 1);
  EXPECT_NE(written().find("no libnccl"), std::string::npos);
  EXPECT_NE(output.text.find("8 passed, 0 failed, 1 skipped, 0 not run"), std::string::npos);
}

TEST_F(GpuScriptWithAFake, AFailedOneCountsMoreThanASkippedOne) {
  EXPECT_EQ(run_with("nccl-one) exit 4 ;;\ncodecs) kill -9 $$ ;;\n").code, 1);
  EXPECT_EQ(verdicts("failed"), 1u);
  EXPECT_EQ(verdicts("skipped"), 1u);
}

TEST_F(GpuScriptWithAFake, WhatHangsHasFailedAndTheOthersRun) {
  EXPECT_EQ(run_with("prediction) sleep 1000 ;;\n", "PATIENCE_S=1").code, 1);
  EXPECT_EQ(verdicts("failed"), 1u);
  EXPECT_EQ(verdicts("passed"), kSections - 1);
  EXPECT_NE(written().find("(stopped after 1 s)"), std::string::npos);
}

TEST_F(GpuScriptWithAFake, WhenTheBudgetIsSpentTheRestIsNotRunAndThePageSaysSo) {
  EXPECT_EQ(run_with("", "BUDGET_S=0").code, 4);
  EXPECT_EQ(verdicts("not run: time"), kSections);
  EXPECT_EQ(run_with("codecs) sleep 1000 ;;\n", "BUDGET_S=1").code, 4);
  EXPECT_EQ(verdicts("not run: time"), kSections) << "also the one under way, which did not fail";
}

TEST_F(GpuScriptWithAFake, AnEndFromOutsideLeavesThePageOfWhatWasDone) {
  run_with("codec-speed) kill -9 $(cut -d' ' -f4 /proc/$PPID/stat) ;;\n");
  EXPECT_EQ(verdicts("passed"), 1u);
  EXPECT_EQ(verdicts("not run: interrupted"), kSections - 1);
}

TEST_F(GpuScriptWithAFake, WithoutADeviceThePageIsLeftAlone) {
  const Output output = run_with("device) echo no GPU here; exit 4 ;;\n");
  EXPECT_EQ(output.code, 4);
  EXPECT_NE(output.text.find("no GPU here"), std::string::npos);
  EXPECT_EQ(written(), "");
}

#ifdef ORRERY_GPU_CHECK
TEST(GpuScript, ItsSectionsAreThoseOfTheProgram) {
  EXPECT_EQ(run(kScript + " --dry-run").text, run(ORRERY_GPU_CHECK " --list").text);
}

TEST(GpuScript, WithoutAGpuEverySectionSaysWhyItCannotRun) {
  if (run(ORRERY_GPU_CHECK " device").code == 0) GTEST_SKIP() << "there is a GPU";
  std::istringstream sections(run(kScript + " --dry-run").text);
  for (std::string line; std::getline(sections, line);) {
    const Output output = run(ORRERY_GPU_CHECK " " + line.substr(0, line.find(' ')));
    EXPECT_EQ(output.code, 4) << line << ": " << output.text;
    EXPECT_GT(output.text.size(), 10u) << line;
  }
  EXPECT_EQ(run(ORRERY_GPU_CHECK " nonsense").code, 2);
}
#endif

TEST(GpuStatistics, TheIntervalOfAMedianIsByRanks) {
  std::vector<double> values;
  for (int i = 1; i <= 40; ++i) values.push_back(41 - i);
  const Median median = median_of(values);
  EXPECT_EQ(median.value, 20.5);
  EXPECT_EQ(median.low, 13);  // no tighter than the 14th and 27th of 40, which hold 95%
  EXPECT_EQ(median.high, 28);
  EXPECT_EQ(median_of({5, 1, 4, 2, 3, 9}).low, 1);
  EXPECT_EQ(median_of({5, 1, 4, 2, 3, 9}).high, 9);
}

TEST(GpuStatistics, TooNoisyIsNotPassed) {
  EXPECT_EQ(judge({1.0, 0.99, 1.02}, 1.02), Verdict::within);
  EXPECT_EQ(judge({1.0, 0.99, 1.03}, 1.02), Verdict::noisy);
  EXPECT_EQ(judge({1.05, 1.03, 1.07}, 1.02), Verdict::beyond);
}

TEST(GpuStatistics, StepsAreFittedAndPredictedWithCoefficientsThatAreNotNegative) {
  const std::vector<double> truth{1.0 / 40e12, 1.0 / 20e12, 1.0 / 3e12, 0, 3e-6};
  const std::vector<StepSize> sizes{{2, 512, 8, 1408, 4, 512},    {2, 1024, 16, 2816, 4, 512},
                                    {4, 1024, 16, 2816, 4, 1024}, {8, 512, 8, 1408, 8, 512},
                                    {2, 2048, 16, 5632, 2, 1024}, {4, 512, 8, 1408, 2, 2048},
                                    {1, 1024, 8, 2816, 8, 1024},  {6, 768, 12, 2048, 8, 512}};
  std::vector<double> seconds;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    seconds.push_back(predict(sizes[i], truth) * (i % 2 == 0 ? 1.01 : 0.99));
  }
  const std::vector<double> found = fit(sizes, seconds);
  for (const double coefficient : found) EXPECT_GE(coefficient, 0);
  const StepSize other{3, 1536, 24, 4096, 3, 768};
  EXPECT_NEAR(predict(other, found) / predict(other, truth), 1, 0.03);
}

}  // namespace
}  // namespace orrery::live::gpu_check
