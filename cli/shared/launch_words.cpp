#include "cli/shared/launch_words.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::cli {
namespace {

/// torchrun's options that have no value.
constexpr std::array<std::string_view, 4> kFlags{"--standalone", "--no-python", "--run-path",
                                                 "--virtual-local-rank"};
/// torchrun's options with a value (PyTorch 2.13).
constexpr std::array<std::string_view, 27> kValued{"--nnodes",
                                                   "--nproc-per-node",
                                                   "--rdzv-backend",
                                                   "--rdzv-endpoint",
                                                   "--rdzv-id",
                                                   "--rdzv-conf",
                                                   "--max-restarts",
                                                   "--monitor-interval",
                                                   "--start-method",
                                                   "--event-log-handler",
                                                   "--role",
                                                   "--log-dir",
                                                   "--redirects",
                                                   "-r",
                                                   "--tee",
                                                   "-t",
                                                   "--local-ranks-filter",
                                                   "--duplicate-stdout-filters",
                                                   "--duplicate-stderr-filters",
                                                   "--node-rank",
                                                   "--master-addr",
                                                   "--master-port",
                                                   "--local-addr",
                                                   "--logs-specs",
                                                   "--numa-binding",
                                                   "--signals-to-handle",
                                                   "--shutdown-timeout"};

bool is_launcher(const std::vector<std::string>& words, std::size_t& script_from) {
  if (std::filesystem::path(words[0]).filename() == "torchrun") {
    script_from = 1;
    return true;
  }
  const bool is_module =
      words.size() > 2 && words[1] == "-m" &&
      (words[2] == "torch.distributed.run" || words[2] == "torch.distributed.launch");
  script_from = 3;
  return is_module;
}

template <class Names>
bool is_one_of(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::optional<std::uint32_t> whole_number_in(const std::string& value) {
  std::uint32_t count = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error == std::errc() && end == value.data() + value.size()) return count;
  return std::nullopt;
}

std::uint32_t ranks_in(const std::string& option, const std::string& value) {
  const auto count = whole_number_in(value);
  if (count && *count > 0) return *count;
  throw Error(ErrorKind::usage,
              fmt::format("{}: expected a number of ranks, found '{}': give it as -n before --",
                          option, value));
}

std::uint32_t restarts_in(const std::string& option, const std::string& value) {
  if (const auto count = whole_number_in(value)) return *count;
  throw Error(
      ErrorKind::usage,
      fmt::format("{}: expected a number of restarts, found '{}': give it as --restart before --",
                  option, value));
}

/// Name of an option of torchrun with dashes, which torchrun also accepts as underscores.
std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

void check_nodes(const std::string& value) {
  if (value == "1" || value == "1:1") return;
  throw Error(ErrorKind::usage,
              fmt::format("--nnodes: expected 1, found '{}': orrery run starts ranks on this "
                          "machine only",
                          value));
}

}  // namespace

Launch read_launch(const std::vector<std::string>& words, std::optional<std::uint32_t> ranks) {
  Launch launch;
  std::size_t at = 0;
  if (!is_launcher(words, at)) {
    launch.command = words;
    launch.ranks = ranks.value_or(1);
    return launch;
  }
  launch.is_torchrun = true;
  bool is_module = false, has_python = true;
  while (at < words.size() && words[at].size() > 1 && words[at][0] == '-') {
    const std::size_t equals = words[at].find('=');
    const std::string name = dashed(words[at].substr(0, equals));
    ++at;
    if (name == "--module" || name == "-m") {
      is_module = true;
    } else if (is_one_of(kFlags, name)) {
      has_python = has_python && name != "--no-python";
    } else {
      if (!is_one_of(kValued, name)) {
        throw Error(ErrorKind::usage,
                    fmt::format("{}: expected an option of torchrun, found another one: write it "
                                "in full, or start the script without torchrun: orrery run -n N "
                                "-- python SCRIPT",
                                name));
      }
      std::string value;
      if (equals != std::string::npos) {
        value = words[at - 1].substr(equals + 1);
      } else if (at < words.size()) {
        value = words[at++];
      }
      if (name == "--nnodes") check_nodes(value);
      if (name == "--nproc-per-node" && !ranks) launch.ranks = ranks_in(name, value);
      if (name == "--max-restarts") launch.restarts = restarts_in(name, value);
    }
  }
  if (at == words.size()) {
    throw Error(ErrorKind::usage, "expected a script among torchrun's arguments, found none");
  }
  if (ranks) launch.ranks = *ranks;
  if (has_python) launch.command.push_back(words[0]);
  if (is_module) launch.command.emplace_back("-m");
  launch.command.insert(launch.command.end(), words.begin() + static_cast<std::ptrdiff_t>(at),
                        words.end());
  launch.is_torchrun = has_python;
  return launch;
}

}  // namespace orrery::cli
