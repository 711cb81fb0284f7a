// 10,000 random mutations of each example through the loader in one process, and 100 through the
// program: every outcome is success or a refusal with its place.
#include <chrono>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/process.hpp"
#include "core/schema/yaml_tree.hpp"
#include "policies/parameters.pb.h"
#include "tests/fuzz/mutate.hpp"
#include "topologies/builder.hpp"
#include "traces/jobs/job_log.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery {
namespace {

namespace fs = std::filesystem;

constexpr int kMutations = 10'000;
constexpr int kProgramRuns = 100;
constexpr int kJobLogMutations = 2'000;  // of each sample

void build_scenario(const std::string& text) {
  const LoadedScenario loaded = parse_scenario(text, "mutated.yaml", {});
  build_cluster(loaded.scenario.cluster(), loaded.places, "cluster");
}

void build_topology(const std::string& text) {
  Topology topology;
  const SourceMap places = load_yaml(text, "mutated.yaml", topology);
  resolve(topology, places);
  build_cluster(topology, places);
}

/// What is wrong with the outcome of one text; "" if nothing.
std::string fault_of(const std::function<void(const std::string&)>& load, const std::string& text,
                     int& refused) {
  try {
    load(text);
    return {};
  } catch (const Error& error) {
    ++refused;
    if (error.kind() != ErrorKind::bad_input) return std::string("other kind: ") + error.what();
    if (!error.place()) return std::string("no place: ") + error.what();
    const std::string shown_to_people = error.what();
    if (first_bad_byte(shown_to_people) != std::string_view::npos) return "unsafe message";
    if (shown_to_people.size() > 4096) return "a message above 4096 bytes";
    return {};
  } catch (const std::exception& other) {
    return std::string("another exception: ") + other.what();
  }
}

void mutate_through(const fs::path& file, const std::function<void(const std::string&)>& load) {
  const std::string original = read_text(file);
  ASSERT_NO_THROW(load(original)) << file;
  const std::uint64_t seed = mutation_seed();
  Rng rng = Rng(seed).split(file.filename().string());
  int refused = 0;
  for (int i = 0; i < kMutations; ++i) {
    const std::string text = mutate(original, rng);
    const std::string fault = fault_of(load, text, refused);
    ASSERT_EQ(fault, "") << file << ", ORRERY_SEED=" << seed << ", mutation " << i << "\n" << text;
  }
  EXPECT_GT(refused, kMutations / 3) << "most damage is noticed";
  EXPECT_LT(refused, kMutations) << "some damage is harmless, such as a longer comment";
}

TEST(Mutation, EveryMutatedExampleLoadsOrIsRefusedWithItsPlace) {
  // Named here so that the types which policies' parameters are read into are linked in.
  ASSERT_NE(PredictiveRebalanceParameters::descriptor(), nullptr);
  const auto files = yaml_files(ORRERY_SOURCE_DIR "/examples");
  ASSERT_FALSE(files.empty());
  for (const fs::path& file : files) mutate_through(file, build_scenario);
}

TEST(Mutation, EveryMutatedTopologyLoadsOrIsRefusedWithItsPlace) {
  for (const fs::path& file : yaml_files(ORRERY_SOURCE_DIR "/tests/topologies/samples")) {
    mutate_through(file, build_topology);
  }
}

/// Broken rows are counted where that is allowed, so little of the damage is refused.
TEST(Mutation, EveryMutatedJobLogIsReadOrRefusedWithItsPlace) {
  const std::uint64_t seed = mutation_seed();
  for (const auto& entry : fs::directory_iterator(ORRERY_SOURCE_DIR "/tests/traces/samples")) {
    const std::string original = read_text(entry.path());
    Rng rng = Rng(seed).split(entry.path().filename().string());
    int refused = 0;
    for (int i = 0; i < kJobLogMutations; ++i) {
      const std::string text = mutate(original, rng);
      const bool strict = i % 2 == 1;
      const auto load = [strict](const std::string& mutated) {
        const JobLog log = parse_job_log("mutated.log", mutated, {.strict = strict});
        const TraceQuality& quality = log.quality;
        ensure(quality.rows() == quality.jobs() + quality.passed_over() + quality.rejected(),
               "rows add up");
        const JobLog again = parse_job_log("again.csv", job_trace_csv(log.jobs));
        ensure(again.jobs.size() == log.jobs.size(), "what is written is read again");
      };
      const std::string fault = fault_of(load, text, refused);
      ASSERT_EQ(fault, "") << entry.path() << ", ORRERY_SEED=" << seed << ", mutation " << i << "\n"
                           << text;
    }
    EXPECT_GT(refused, 0) << entry.path();
  }
}

/// Exit code of `orrery check` on a file whose standard error goes to another; -1: it hung.
int check_with_program(const std::string& program, const fs::path& file, const fs::path& errors) {
  ChildProcess child("/bin/sh", {"-c", "exec \"$0\" check \"$1\" >/dev/null 2>\"$2\"", program,
                                 file.string(), errors.string()});
  const auto status = child.wait_for(std::chrono::seconds(20));
  return status ? status->code : -1;
}

TEST(Mutation, TheProgramExitsWith0Or3AndAPlace) {
  const std::string program = ORRERY_BINARY_DIR "/bin/orrery";
  if (!fs::exists(program)) GTEST_SKIP() << program << " is not built";
  const fs::path folder = testing::TempDir() + "orrery_mutation." + std::to_string(getpid());
  fs::create_directories(folder);
  const fs::path mutated = folder / "mutated.yaml", errors = folder / "errors";
  for (const fs::path& file : yaml_files(ORRERY_SOURCE_DIR "/examples")) {
    const std::string original = read_text(file);
    const std::uint64_t seed = mutation_seed();
    Rng rng = Rng(seed).split("program " + file.filename().string());
    for (int i = 0; i < kProgramRuns; ++i) {
      const std::string text = mutate(original, rng);
      std::ofstream(mutated, std::ios::binary) << text;
      const int code = check_with_program(program, mutated, errors);
      const std::string said = read_text(errors);
      ASSERT_TRUE(code == 0 || code == 3) << code << ", ORRERY_SEED=" << seed << "\n" << said
                                          << "\n" << text;
      if (code == 3) {
        ASSERT_NE(said.find("mutated.yaml:"), std::string::npos) << said;
      }
    }
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace orrery
