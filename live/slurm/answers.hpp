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
#include "policies/seam/event.hpp"

namespace orrery::live {

/// Phase of a job in Slurm: in the queue, on nodes, or over.
enum class SlurmPhase : std::uint8_t { pending, placed, ended };

/// One job as squeue shows it. No field holds text that a user chose freely.
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
};

/// Fields that `squeue -O` must print for parse_jobs(), each followed by '|'.
extern const char* const kJobFields;
/// Fields that `squeue -O` must print for parse_keepers().
extern const char* const kKeeperFields;
/// Fields that `squeue -O` must print for parse_comments().
extern const char* const kCommentFields;
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
/// Returns the start of slurmctld in the answer of `scontrol show config`. Throws bad_input if the
/// answer has no BOOT_TIME.
std::int64_t parse_boot_time(const std::string& answer);
/// Returns the Comments of the jobs `ids`, by their ids, in the answer of `squeue -O` with
/// kCommentFields. A Comment is a text that a user chose, which may look like lines of other jobs:
/// returns nothing if a line is not that of one of `ids`, or the second one of its job. The answer
/// about one job alone is always clear.
std::optional<std::map<std::string, std::string>> parse_comments(
    const std::string& answer, const std::vector<std::string>& ids);

/// Returns the names in a list of hosts: "n[1-2,04],m7" is n1, n2, n04, m7. Returns nothing for
/// "(null)", "N/A" and an empty text. Throws a usage Error for a malformed list, and for one with
/// more than 131,072 names.
std::vector<std::string> expand_hosts(std::string_view list);
/// Returns the number of GPUs in a list of generic resources: 3 for "gres:gpu:a100:2,gres:gpu:1",
/// 8 for "gpu:8(S:0-1)", 0 for "N/A". Throws a usage Error for a number that is none.
std::uint32_t count_gpus(std::string_view resources);
/// Returns the first type of GPUs in a list of generic resources: "a100" for "gpu:a100:2,gpu:1",
/// empty for "gpu:8(S:0-1)".
std::string gpu_type_in(std::string_view resources);
/// Returns the seconds of a time limit: 300 for "5:00", 97,200 for "1-03:00:00", 0 for "UNLIMITED".
/// Throws a usage Error for another text.
std::int64_t parse_limit(std::string_view limit);
/// Returns the phase of a job whose state is Slurm's word `state`. Throws a usage Error with the
/// nearest word for an unknown one.
SlurmPhase phase_of(std::string_view state);
/// Returns how a job of the phase `ended` ended: "COMPLETED" is completed, "CANCELLED by 1001" is
/// cancelled, any other word is failed.
Ending ending_of(std::string_view state);

}  // namespace orrery::live
