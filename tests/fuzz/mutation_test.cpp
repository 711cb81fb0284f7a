// 5,000 random mutations of each example through the loader in one process, and 25 through the
// program, 20,000 of each sample of a job log or a cluster through its reader: every outcome is
// success or a refusal with its place. ORRERY_MUTATIONS, ORRERY_PROGRAM_MUTATIONS and
// ORRERY_IMPORTER_MUTATIONS give other numbers; ./dev soak runs 10,000 and 100.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/process.hpp"
#include "core/schema/yaml_tree.hpp"
#include "tests/fuzz/mutate.hpp"
#include "topologies/builder.hpp"
#include "traces/clusters/cluster_file.hpp"
#include "traces/jobs/batsim_workload.hpp"
#include "traces/jobs/cluster_log.hpp"
#include "traces/jobs/job_log.hpp"
#include "traces/models/model_file.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery {
namespace {

namespace fs = std::filesystem;

/// Returns the number in an environment variable; without the variable `otherwise`.
int number_of(const char* variable, int otherwise) {
  const char* const given = std::getenv(variable);
  return given == nullptr ? otherwise : std::atoi(given);
}
/// Returns the number of mutations of each example.
int example_mutations() { return number_of("ORRERY_MUTATIONS", 5'000); }
/// Returns the number of mutations of each example through the program.
int program_mutations() { return number_of("ORRERY_PROGRAM_MUTATIONS", 25); }
/// Returns the number of mutations of each sample of an importer.
int importer_mutations() { return number_of("ORRERY_IMPORTER_MUTATIONS", 20'000); }

/// Builds the cluster of a mutated scenario. The files it names are those of the examples.
void build_scenario(const std::string& text) {
  const LoadedScenario loaded =
      parse_scenario(text, ORRERY_SOURCE_DIR "/examples/mutated.yaml", {});
  build_cluster(loaded.scenario.cluster(), loaded.places, "cluster");
}

void build_topology(const std::string& text) {
  Topology topology;
  const SourceMap places = load_yaml(text, "mutated.yaml", topology);
  resolve(topology, places);
  build_cluster(topology, places);
}

void build_replay(const std::string& text) {
  JobReplay replay;
  const SourceMap places = load_yaml(text, "mutated.yaml", replay);
  if (!replay.has_cluster()) return;
  resolve(*replay.mutable_cluster(), places, "cluster");
  build_cluster(replay.cluster(), places, "cluster");
}

bool is_replay(const fs::path& file) { return file.filename().string().starts_with("replay-"); }

/// Returns the error in the outcome of one text; "" if none.
std::string fault_of(const std::function<void(const std::string&)>& load, const std::string& text,
                     int& refused) {
  try {
    load(text);
    return {};
  } catch (const Error& error) {
    ++refused;
    if (error.kind() != ErrorKind::bad_input) return std::string("other kind: ") + error.what();
    if (!error.source_place()) return std::string("no place: ") + error.what();
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
  Rng rng = Rng(seed).split_stream(file.filename().string());
  const int mutations = example_mutations();
  int refused = 0;
  for (int i = 0; i < mutations; ++i) {
    const std::string text = mutate(original, rng);
    const std::string fault = fault_of(load, text, refused);
    ASSERT_EQ(fault, "") << file << ", ORRERY_SEED=" << seed << ", mutation " << i << "\n" << text;
  }
  EXPECT_GT(refused, mutations / 3) << "most damage is noticed";
  EXPECT_LT(refused, mutations) << "some damage is harmless, such as a longer comment";
}

TEST(Mutation, EveryMutatedExampleLoadsOrIsRefusedWithItsPlace) {
  const auto files = yaml_files(ORRERY_SOURCE_DIR "/examples");
  ASSERT_FALSE(files.empty());
  for (const fs::path& file : files) {
    mutate_through(file, is_replay(file) ? build_replay : build_scenario);
  }
}

TEST(Mutation, EveryMutatedTopologyLoadsOrIsRefusedWithItsPlace) {
  for (const fs::path& file : yaml_files(ORRERY_SOURCE_DIR "/tests/topologies/samples")) {
    mutate_through(file, build_topology);
  }
}

/// Every second one strictly, where there is such a thing; some of the damage is noticed.
void mutate_importer(const std::string& name, const std::string& original,
                     const std::function<void(const std::string&, bool)>& load) {
  const std::uint64_t seed = mutation_seed();
  Rng rng = Rng(seed).split_stream(name);
  int refused = 0;
  for (int i = 0; i < importer_mutations(); ++i) {
    const std::string text = mutate(original, rng);
    const auto with = [&](const std::string& mutated) { load(mutated, i % 2 == 1); };
    const std::string fault = fault_of(with, text, refused);
    ASSERT_EQ(fault, "") << name << ", ORRERY_SEED=" << seed << ", mutation " << i << "\n" << text;
  }
  EXPECT_GT(refused, 0) << name;
}

/// Broken rows are counted where that is allowed, so little of the damage is refused.
TEST(Mutation, EveryMutatedJobLogIsReadOrRefusedWithItsPlace) {
  const auto load = [](const std::string& mutated, bool strict) {
    const JobLog log = parse_job_log("mutated.log", mutated, {.strict = strict});
    const TraceQuality& quality = log.quality;
    ensure(quality.rows() == quality.jobs() + quality.passed_over() + quality.rejected(),
           "rows add up");
    const JobLog again = parse_job_log("again.csv", job_trace_csv(log.jobs));
    ensure(again.jobs.size() == log.jobs.size(), "what is written is read again");
    const JobLog batsim = parse_job_log("w.json", write_batsim_workload(log.jobs, 1).text);
    ensure(batsim.jobs.size() == log.jobs.size(), "a written workload is read again");
  };
  for (const auto& entry : fs::directory_iterator(ORRERY_SOURCE_DIR "/tests/traces/samples")) {
    mutate_importer(entry.path().filename().string(), read_text(entry.path()), load);
  }
}

TEST(Mutation, EveryMutatedClusterIsReadOrRefusedWithItsPlace) {
  const auto nodes = [](const std::string& text, bool) { parse_nodes("mutated.csv", text); };
  mutate_importer("nodes.csv",
                  "sn,cpu_milli,memory_mib,gpu,model\nn0,96000,393216,8,G2\nn1,32000,262144,0,\n",
                  nodes);
  const auto pods = [](const std::string& text, bool) { parse_pods("mutated.csv", text); };
  const std::string openb = read_text(ORRERY_SOURCE_DIR "/tests/traces/samples/openb.csv");
  mutate_importer("openb.csv", openb, pods);
  const auto cluster = [](const std::string& text, bool) { parse_cluster_log("mutated", text); };
  mutate_importer("slurm.conf",
                  "ClusterName=a\nNodeName=DEFAULT State=UNKNOWN\n"
                  "NodeName=gpu[001-016,20] CPUs=128 RealMemory=1024000 Gres=gpu:a100:8(S:0-1)\n"
                  "NodeName=old Sockets=2 CoresPerSocket=16 Gres=gpu:2,nvme:4 # aged\n",
                  cluster);
  mutate_importer("nodes.json",
                  R"({"apiVersion": "v1", "items": [{"kind": "Node", "metadata": {"name": "n1",
"labels": {"nvidia.com/gpu.product": "H100"}}, "status": {"capacity": {"cpu": "192",
"nvidia.com/gpu": "8"}}}, {"kind": "Node", "metadata": {"name": "c"}}]})",
                  cluster);
}

TEST(Mutation, EveryMutatedModelFileIsReadOrRefusedWithItsPlace) {
  const auto model = [](const std::string& text, bool) { parse_model_file(text, "mutated"); };
  const fs::path configs = ORRERY_SOURCE_DIR "/tests/traces/models/configs";
  for (const char* name : {"deepseek-v3-671b", "gemma-3-4b"}) {
    mutate_importer(name, read_text(configs / (std::string(name) + ".json")), model);
  }
  mutate_importer("megatron",
                  "SEQ=4096\nA=(--num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
                  "--seq-length $SEQ --vocab-size 50257 --num-experts 8 --moe-router-topk 2 "
                  "--group-query-attention --num-query-groups 8 --swiglu)\n",
                  model);
  mutate_importer("torchtitan",
                  "[model]\nname = \"llama3\" # name\nflavor = '8B'\n[training]\nseq_len = 8192\n"
                  "steps = [1,\n2]\n",
                  model);
}

TEST(Mutation, EveryMutatedClusterFileIsReadOrRefusedWithItsPlace) {
  const auto cluster = [](const std::string& text, bool) { parse_cluster_file(text, "mutated"); };
  for (const auto& entry :
       fs::directory_iterator(ORRERY_SOURCE_DIR "/tests/traces/clusters/samples")) {
    mutate_importer(entry.path().filename().string(), read_text(entry.path()), cluster);
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
  fs::copy(ORRERY_SOURCE_DIR "/examples/one-spine-jobs.csv", folder);  // a replay's log
  fs::copy(ORRERY_SOURCE_DIR "/examples/recordings", folder / "recordings");
  const fs::path mutated = folder / "mutated.yaml", errors = folder / "errors";
  for (const fs::path& file : yaml_files(ORRERY_SOURCE_DIR "/examples")) {
    const std::string original = read_text(file);
    const std::uint64_t seed = mutation_seed();
    Rng rng = Rng(seed).split_stream("program " + file.filename().string());
    for (int i = 0; i < program_mutations(); ++i) {
      const std::string text = mutate(original, rng);
      std::ofstream(mutated, std::ios::binary) << text;
      const int code = check_with_program(program, mutated, errors);
      const std::string said = read_text(errors);
      ASSERT_TRUE(code == 0 || code == 3) << code << ", ORRERY_SEED=" << seed << "\n"
                                          << said << "\n"
                                          << text;
      if (code == 3) {
        ASSERT_NE(said.find("mutated.yaml:"), std::string::npos) << said;
      }
    }
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace orrery
