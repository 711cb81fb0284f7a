// Parsers for the answers of Slurm's commands: jobs (squeue), nodes (scontrol show node), ends of
// jobs (sacct). Used by live/slurm/slurm_cluster. Pure functions of the text, thread-safe. An
// answer that is cut short or that has another form is a bad_input Error with line and column,
// never a partial result. Instants are seconds since 1970; 0: unknown.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "live/queue/node_map.hpp"
#include "live/slurm/fields.hpp"
#include "policies/seam/event.hpp"

namespace orrery::live {

/// One job as squeue shows it. Only the name holds text that a user chose freely.
struct SlurmJob {
  std::string id;             ///< "17"; "17_4": task of an array; "17+1": part of a mixed job
  std::int64_t submit_s = 0;  ///< instant of submission; Slurm sets it anew at a requeue
  std::string state;          ///< Slurm's word, for example "RUNNING"
  SlurmPhase phase{};
  std::string user, account, partition;
  std::int64_t eligible_s = 0;                   ///< begin time, from which Slurm may start the job
  std::int64_t limit_s = 0;                      ///< time limit; 0: none
  std::uint32_t nodes = 0;                       ///< requested nodes, or nodes of a placed job
  std::vector<std::string> placed_on = {};       ///< names of the nodes of a placed or ended job
  std::vector<std::string> required_nodes = {};  ///< requested names (ReqNodeList)
  std::uint32_t gpus_per_node = 0;               ///< GPUs on each node; 0: none
  bool is_uneven = false;  ///< the request does not fix the number of GPUs of each node
  bool is_held = false;    ///< priority 0: Slurm starts the job only after a release
  std::string dependency;  ///< jobs of its user that it waits for: "afterok:1(unfulfilled)"
  std::string keeper;      ///< id of the keeper job that it waits for (live/slurm/keeper_job)
  /// Returns true if the job waits for a job other than a keeper.
  bool has_unmet_dependency() const {
    return dependency.find("(unfulfilled)") != std::string::npos ||
           dependency.find("(failed)") != std::string::npos;
  }
  std::string reason;  ///< Slurm's word for why the job waits, for example "Resources"
  /// Returns true if the ordered nodes can never run the job.
  bool has_bad_constraints() const { return reason == "BadConstraints"; }
  /// Returns true if Slurm holds the job because it could not start as ordered: the nodes do not
  /// fit, or refused the launch.
  bool is_refused() const {
    return has_bad_constraints() || (is_held && reason == "launch failed requeued held");
  }
  std::uint32_t restarts = 0;  ///< number of requeues
  std::string name = {};       ///< the user's name, any text, at most kNameWidth bytes of it
};

/// One node as scontrol shows it.
struct SlurmNode : QueueNode {
  std::string state;  ///< Slurm's words, for example "MIXED+DRAIN"
  std::vector<std::string> partitions;
};

/// One keeper job as squeue shows it.
struct SlurmKeeper {
  std::string id;
  std::int64_t submit_s = 0;
  std::string user;
  std::string comment = {};  ///< names the jobs that the keeper is for
};

/// End of a job as sacct shows it.
struct SlurmEnd {
  std::string id;
  std::int64_t submit_s = 0;
  Ending how{};
  std::int64_t ran_s = 0;  ///< seconds from its newest start to its end; 0: unknown
};

/// Bytes of the name of a job in the answer of squeue: a longer name is cut, a shorter one filled
/// up with blanks, so that a name with '|' or newlines cannot look like other fields or jobs.
inline constexpr std::size_t kNameWidth = 64;
/// Fields that `squeue -O` must print for parse_jobs(), each followed by '|'. The last one is the
/// name, of kNameWidth bytes.
extern const char* const kJobFields;
/// Fields that `squeue -O` must print for parse_keepers().
extern const char* const kKeeperFields;
/// Fields that `squeue -O` must print for parse_comments().
extern const char* const kCommentFields;
/// Fields that `squeue -O` must print for parse_run_times().
extern const char* const kRunTimeFields;
/// Fields that `sacct -P -n -X -o` must print for parse_ends().
extern const char* const kEndFields;
/// Last line of a complete answer, which the shell adds after the command has succeeded.
inline constexpr std::string_view kEndOfAnswer = "end of answer\n";

/// Returns the answer of `command` without its last line kEndOfAnswer. Throws an environment Error
/// with the command's message if the command failed (last line "failed: MESSAGE"), and bad_input if
/// the answer is cut short.
std::string complete_answer(const std::string& text, std::string_view command);

/// Returns the jobs in the answer of `squeue -r -a -h -t all -O` with kJobFields. Throws bad_input
/// with the place of the first wrong field.
std::vector<SlurmJob> parse_jobs(const std::string& answer);
/// Returns the keeper jobs in the answer of `squeue -O` with kKeeperFields, without their Comments.
/// Throws bad_input as above.
std::vector<SlurmKeeper> parse_keepers(const std::string& answer);
/// Returns the nodes in the answer of `scontrol -o show node`. Throws bad_input as above.
std::vector<SlurmNode> parse_nodes(const std::string& answer);
/// Returns the nodes of `all` that have GPUs and, unless `partitions` is empty, are in one of
/// `partitions`. Throws bad_input if no node is left.
std::vector<QueueNode> managed_nodes(const std::vector<SlurmNode>& all,
                                     const std::set<std::string>& partitions);
/// Returns the ends in the answer of `sacct`, without jobs that have not ended. Throws bad_input as
/// above.
std::vector<SlurmEnd> parse_ends(const std::string& answer);
/// Returns the seconds between the newest start and the end of ended jobs, by id, in the answer of
/// `squeue -O` with kRunTimeFields; without jobs that never ran. Throws bad_input as above.
std::map<std::string, std::int64_t> parse_run_times(const std::string& answer);
/// Facts of slurmctld in the answer of `scontrol show config`.
struct SlurmConfiguration {
  std::int64_t boot_s = 0;  ///< start of slurmctld
  std::int64_t now_s = 0;   ///< clock of slurmctld when it answered; 0: the answer has none
};

/// Returns the facts in the answer of `scontrol show config`. Throws bad_input if the answer has no
/// BOOT_TIME.
SlurmConfiguration parse_configuration(const std::string& answer);
/// Returns the Comments of the jobs `ids`, by their ids, in the answer of `squeue -O` with
/// kCommentFields. A Comment is a text that a user chose, which may look like lines of other jobs:
/// returns nothing if a line is not that of one of `ids`, or the second one of its job. The answer
/// about one job alone is always clear.
std::optional<std::map<std::string, std::string>> parse_comments(
    const std::string& answer, const std::vector<std::string>& ids);

}  // namespace orrery::live
