// Rules of a user's program under policies: its attached parts determine which decisions the
// program can carry out, and the reasons for which the others are refused. Used by program_backend
// and `orrery run`. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "live/group/frames.hpp"
#include "policies/seam/decision.hpp"
#include "policies/seam/policy.hpp"

namespace orrery::live {

/// Parts of a program that its ranks have reported before their first step.
struct ProgramFeatures {
  bool has_state = false;      ///< the program calls orrery.torch.state(), or has a whole trainer
  bool is_whole = false;       ///< every rank has all of that state
  bool has_saves = false;      ///< policies can set the steps of its snapshots or checkpoints
  std::uint64_t every = 0;     ///< steps between two snapshots, as the program says
  std::uint32_t share = 0;     ///< examples in a batch of one rank; 0: shares cannot be set
  std::string no_saves = {};   ///< reason why they cannot
  std::string no_shares = {};  ///< reason why shares cannot be set
  std::string no_codes = {};   ///< reason why gradients cannot travel in codes; empty: they can
  Prefetch prefetch = {};      ///< readers of the training data; 0 workers: they cannot be set
  /// largest numbers for the processors and the memory of the machine
  Prefetch most_prefetch = {};
  std::string no_prefetch = {};  ///< reason why the readers cannot be set
  /// reason why NCCL's table of collectives cannot be set; empty: it can
  std::string no_table = "no NCCL";
  bool is_bare = false;  ///< the ranks load NCCL without PyTorch: nothing else is attached

  /// Returns the actions and settings that the program can carry out.
  Capabilities capabilities() const;
};

/// Returns the features in the message "ready STEP STATE EVERY SHARE REASON REASON WORKERS DEPTH
/// WORKERS DEPTH REASON REASON REASON JOINS" of a rank; the reasons are no_shares, no_codes,
/// no_prefetch, no_saves and no_table, the second pair is most_prefetch. STATE is a StateShare,
/// "own" for checkpoints of the program's own trainer, or empty. JOINS is "1" if a new process can
/// join the loop of the trainer, else "0". Throws std::exception if a number or a field is missing.
ProgramFeatures features_of(const Fields& fields);
/// Returns the readers in two fields of a message, workers and depth, from field `first` on. Throws
/// as features_of().
Prefetch prefetch_of(const Fields& fields, std::size_t first);
/// Returns the features of a program whose ranks load NCCL without PyTorch. `no_table`: reason why
/// NCCL's table of collectives cannot be set; empty: it can.
ProgramFeatures bare_features(const std::string& no_table);
/// Returns the features that two ranks have in common.
ProgramFeatures common_features(const ProgramFeatures& a, const ProgramFeatures& b);

/// Returns the reasons, as one text, why the program cannot satisfy needs; empty if it can.
std::string missing_features(const ProgramFeatures& features, const Needs& needs);

/// Situation of a program in which a decision is judged.
struct ProgramSituation {
  std::size_t ranks = 0;              ///< ranks at the start
  std::vector<std::size_t> members;   ///< ranks that train, ascending
  bool can_restart = false;           ///< the limit of restarts is not reached
  bool has_table = false;             ///< the common table of collectives is written
  std::size_t replacements_left = 0;  ///< processes that may be started for lost ranks
};

/// Returns the reason why the program cannot carry out a decision on `job`; empty if it can.
std::string program_refusal(const ProgramFeatures& features, const ProgramSituation& situation,
                            const JobInfo& job, const Decision& decision);

/// Returns the plan of shares for the ranks of the program, for example "shares 0:13 1:3".
/// `shares`: examples by rank of the job; `ranks`: ranks of the program by rank of the job.
std::string share_text(const std::vector<std::uint32_t>& shares,
                       const std::vector<std::pair<std::size_t, bool>>& ranks);

/// Returns the plan of the gradients' code, for example "codecs int8 0 1": codec, parameter, error
/// feedback. A bucket of a program contains parameters of all classes; the rule of matrices counts.
std::string codec_text(const CodecRules& rules);

/// Returns the plan of the readers of the training data, for example "prefetch 4 8": workers,
/// depth.
std::string prefetch_text(const Prefetch& prefetch);

/// Returns the job of a program with `ranks` ranks.
JobSpec program_job(const std::string& name, std::uint32_t ranks, const ProgramFeatures& features);

}  // namespace orrery::live
