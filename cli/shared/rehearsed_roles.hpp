// Processes of a rehearsal: one for each rank that has a role of its own. Called by `orrery
// rehearse`. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/shared/price_server.hpp"
#include "core/process.hpp"

namespace orrery::cli {

/// Largest number of ranks that a rehearsal runs side by side.
inline constexpr std::size_t kMostRoles = 64;

/// Program of a rehearsal.
struct RehearsedProgram {
  std::string path;                    ///< executable
  std::vector<std::string> arguments;  ///< without argv[0]
  /// Sets the environment of the process of a rank, before its start.
  std::function<void(std::uint32_t rank)> prepare;
};

/// End of the processes of a rehearsal.
struct RolesOutcome {
  /// Status of the first process that ended with another code than 0, else that of rank 0.
  ExitStatus status;
  /// Ranks that the program needs beside those that ran; then the processes were ended early.
  std::vector<std::uint32_t> needed;
};

/// Starts a process for each of `ranks`, answers their questions about prices and about each other
/// until all have ended, and returns how they ended. Throws an environment Error if a process
/// cannot be started, an internal Error for a torn message.
RolesOutcome run_roles(const RehearsedProgram& program, const std::vector<std::uint32_t>& ranks,
                       PriceServer& server);

}  // namespace orrery::cli
