// Start of a user's PyTorch program as ranks of this machine: executable, environment, settings of
// the attachment, signals. Used by `orrery run`, `orrery calibrate` and `orrery compare`. One
// thread: the functions change the environment of this process, which the ranks inherit.
#pragma once

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <CLI/App.hpp>

#include "cli/shared/launch_words.hpp"
#include "live/programs/program_settings.hpp"

namespace orrery::cli {

/// Trial steps of `orrery run --prove` (python/orrery/programs/proving.py).
struct ProofSettings {
  std::string folder = {};    ///< folder of the gradients' sums; empty: no trial
  std::uint32_t steps = 0;    ///< optimizer steps of a trial
  bool deals_shares = false;  ///< unequal shares of a step's examples
  bool weighs = true;         ///< outputs are weighted with the shares
};

/// Way of the sums of tensors on the CPU (--sums): memory that the ranks share, or Gloo's sockets.
enum class SumPath : std::uint8_t { memory, sockets };
constexpr std::array<std::string_view, 2> names_of(SumPath) { return {"memory", "sockets"}; }

/// Settings of the attachment in all ranks (python/orrery/programs/running.py).
struct AttachSettings {
  std::string snapshots;    ///< folder of the snapshots of this run
  bool deals_data = false;  ///< the examples of lost ranks go to the others
  bool has_policies = false;
  SumPath sums = SumPath::memory;
  std::uint32_t in_flight = 0;      ///< operations of a group in flight at a rank; 0: by backend
  bool outlives_run = false;        ///< ranks go on if this process is killed
  std::string profile_folder = {};  ///< folder of the ranks' profiles; empty: none
  std::uint32_t profile_steps = 0;  ///< steps of a profile
  std::string trace_folder = {};    ///< folder of PyTorch's own traces; empty: none
  bool weighs = true;               ///< shares weigh the gradients at the model's output
  ProofSettings proof = {};
};

/// Adds the option --sums, the name of a SumPath, to a command that starts ranks. Returns the
/// option.
CLI::Option* add_sums_option(CLI::App& command, std::string& sums);

/// Returns the executable of the ranks; empty if there is none.
std::string executable_of(const Launch& launch);
/// Returns the name of the program: its script, without the folder.
std::string name_of(const Launch& launch);

/// Sets the environment that all ranks share, and attaches them. Throws as programs_folder().
void prepare_environment(const Launch& launch);
/// Sets the environment that differs between the attempts, of which `restart` came before. Throws
/// an environment Error if no TCP port is unused.
void prepare_attempt(std::size_t restart);
/// Returns the variables that prepare_attempt() has set, by name; none before the first attempt.
std::map<std::string, std::string> attempt_environment();
/// Sets the variable that attaches a process. `warm_file`: makes the process a warm one
/// (live/programs/warm_process.hpp), whose answer goes to this file; empty: it is a rank. Throws as
/// native_sources_folder().
void set_attachment(const AttachSettings& settings, const live::RankStart& start,
                    const std::string& warm_file);
/// Sets the environment of one rank. Throws as set_attachment().
void set_rank(const AttachSettings& settings, const live::RankStart& start);
/// Returns the function that starts a rank. Throws as native_sources_folder().
live::RankStarter starter_of(const Launch& launch, const std::string& executable,
                             const AttachSettings& settings);

/// Keeps the numbers of SIGINT, SIGTERM, SIGQUIT and SIGHUP, in place of ending this process; an
/// ignored SIGHUP (nohup) stays ignored. One at a time.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();  ///< lets signals end this process again
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  std::array<struct sigaction, 4> before_{};
};

/// Returns the number of a signal since the last call; 0: none.
int drain_signal();

}  // namespace orrery::cli
