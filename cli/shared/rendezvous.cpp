#include "cli/shared/rendezvous.hpp"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery::cli {
namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<std::uint32_t> number_in(const char* name) {
  const std::string text = environment(name);
  if (text.empty()) return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem == std::errc() && end == text.data() + text.size()) return value;
  throw Error(ErrorKind::usage, fmt::format("{}={}: expected a whole number", name, text));
}

bool set_place(Rendezvous& out, const char* rank_name, const char* ranks_name) {
  const auto rank = number_in(rank_name), ranks = number_in(ranks_name);
  if (!rank || !ranks) return false;
  if (*rank >= *ranks) {
    throw Error(ErrorKind::usage, fmt::format("{}={}: expected a rank below {}={}", rank_name,
                                              *rank, ranks_name, *ranks));
  }
  out.set_rank(*rank);
  out.set_ranks(*ranks);
  return true;
}

/// Returns the folder of the secrets: the user's own secrets serve all steps of a Slurm job, the
/// secrets that a run makes serve one step.
std::string secrets_folder(const std::string& folder) {
  const std::string job = environment("SLURM_JOB_ID"), step = environment("SLURM_STEP_ID");
  std::error_code unknown;
  if (job.empty() || step.empty() || std::filesystem::exists(folder + "/token", unknown)) {
    return folder;
  }
  return fmt::format("{}/{}.{}", folder, job, step);
}

}  // namespace

Rendezvous rendezvous_of_environment(const std::string& folder, const std::string& listen) {
  Rendezvous out;
  if (!set_place(out, "RANK", "WORLD_SIZE") && !set_place(out, "SLURM_PROCID", "SLURM_NTASKS")) {
    throw Error(ErrorKind::usage,
                "--rendezvous: the environment has neither RANK and WORLD_SIZE nor SLURM_PROCID "
                "and SLURM_NTASKS; start this command with srun or a launcher");
  }
  const std::string master = environment("MASTER_ADDR"), port = environment("MASTER_PORT");
  if (!master.empty() && !port.empty()) out.set_controller(fmt::format("{}:{}", master, port));
  out.set_secrets(secrets_folder(folder));
  out.set_listen(listen);
  if (!listen.empty() || out.rank() != 0) return out;
  out.set_listen(!master.empty() ? master : environment("SLURM_LAUNCH_NODE_IPADDR"));
  if (out.listen().empty()) {
    throw Error(ErrorKind::usage,
                "--rendezvous: expected the address of rank 0, got none: give --listen, or "
                "MASTER_ADDR and MASTER_PORT");
  }
  return out;
}

}  // namespace orrery::cli
