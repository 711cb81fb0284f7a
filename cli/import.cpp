// orrery import: other tools' files, checked and made into scenarios.
#include <filesystem>
#include <fstream>
#include <memory>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "core/error.hpp"
#include "traces/chakra_reader.hpp"

namespace orrery::cli {
namespace {

struct Options {
  ChakraInput input;
  std::string out;
};

constexpr std::size_t kGpusPerNode = 8;  // of the preset below

std::string scenario_of(const Options& options, const ChakraTrace& trace) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::absolute(options.out).parent_path();
  const auto beside = [&](const std::string& file) {
    return fs::absolute(file).lexically_proximate(folder).string();
  };
  std::string text = fmt::format(
      "name: {}\ndescription: Imported Chakra execution trace, {} ranks\n\ncluster:\n"
      "  preset: dgx-h100\n  nodes: {}\n\ntrace:\n  chakra: {}   # relative to this file\n",
      fs::path(options.out).stem().string(), trace.ranks.size(),
      (trace.ranks.size() + kGpusPerNode - 1) / kGpusPerNode, beside(options.input.path));
  if (!options.input.groups.empty()) {
    text += fmt::format("  groups: {}\n", beside(options.input.groups));
  }
  if (options.input.ranks > 0) text += fmt::format("  ranks: {}\n", options.input.ranks);
  return text + "\nrun:\n  steps: 1\n";
}

int import_chakra(const Options& options) {
  const ChakraTrace trace = read_chakra(options.input);
  for (const std::string& warning : trace.warnings) fmt::print(stderr, "warning: {}\n", warning);
  std::ofstream file(options.out, std::ios::binary);
  file << scenario_of(options, trace);
  file.close();
  if (!file) throw Error(ErrorKind::environment, fmt::format("cannot write {}", options.out));
  fmt::print("{}: {} ranks with {} different programs, {} nodes, {} communicators\n", options.out,
             trace.ranks.size(), trace.programs.size(), trace.nodes, trace.groups.size());
  return 0;
}

}  // namespace

void add_import(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("import", "check another tool's files, write a scenario");
  command->require_subcommand(1);
  const auto options = std::make_shared<Options>();
  CLI::App* chakra = command->add_subcommand("chakra", "a Chakra execution trace");
  chakra->add_option("PATH", options->input.path, "PREFIX of PREFIX.0.et ..., or a tar archive")
      ->required();
  chakra->add_option("--groups", options->input.groups, "communicators, if not PREFIX.json")
      ->type_name("FILE");
  chakra->add_option("--ranks", options->input.ranks, "ranks that run the one file there is")
      ->type_name("N")
      ->check(CLI::Range(1u, 131072u));
  chakra->add_option("-o,--output", options->out, "scenario to write")
      ->type_name("OUT.yaml")
      ->required();
  chakra->callback([options, &chosen] { chosen = [options] { return import_chakra(*options); }; });
}

}  // namespace orrery::cli
