// Status of a policy on a real cluster for other terminals: `orrery runs`, `status`, `attach`,
// `set` and `stop` read and write the files of its folder, as those of a live run
// (live/run/files/run_files.hpp). One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/shared/listed_folder.hpp"
#include "live/machine/host_clock.hpp"
#include "live/queue/queue_cluster.hpp"
#include "live/run/operator/orders.hpp"
#include "live/run/operator/status_file.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/seam/decision.hpp"
#include "policies/seam/event.hpp"

namespace orrery::cli {

/// Value of the key `kind` in the status of a run on a cluster.
inline constexpr std::string_view kClusterKind = "cluster";
/// Parameter without a policy that changes the mode of a run on a cluster.
inline constexpr std::string_view kModeParameter = "mode";

/// Returns the name of the parameter that an operator sets: "easy.placement", "mode".
std::string set_name(const ParameterSet& set);

/// Phase of a run on a cluster. `halted`: the kill switch is on.
enum class ClusterPhase : std::uint8_t { running, halted, ending };
constexpr std::array<std::string_view, 3> names_of(ClusterPhase) {
  return {"running", "halted", "ending"};
}

/// Figures of a run on a cluster at one instant.
struct ClusterFigures {
  ClusterPhase phase{};
  std::string policy;  ///< policy that decides now
  HandOverMode mode{};
  std::uint32_t nodes = 0, gpus_per_node = 0;
  live::QueueCluster::Counts counts;
  std::size_t waiting = 0, running = 0;  ///< jobs of the world; an ordered job is neither
  std::size_t orders = 0;                ///< orders that the scheduler has not carried out yet
  std::int64_t lease_s = 0;
  std::string lease_text;  ///< see live::QueueCluster::lease_text()
};

/// Folder of one run with its status, and the orders that operators leave there.
class ClusterStatus {
 public:
  /// Function that returns the reason why a parameter cannot be set; empty if it can.
  using Objection = std::function<std::string(const ParameterSet&)>;

  /// Creates the folder and publishes nothing yet. `name`: name of the run. `metrics`: see
  /// live::StatusFile. `policies`: names of the policies that may decide. `objection`: called
  /// within read_orders() only. Throws an environment Error if the folder cannot be created or the
  /// socket cannot listen, and as live::run_parent().
  ClusterStatus(std::string name, std::string metrics, std::vector<std::string> policies,
                Objection objection);

  /// Adds a line about an event; the status holds the newest lines.
  void add_line(std::string what) { file_.add_line(elapsed(), std::move(what)); }
  /// Adds a question about a decision, described by `what`, and a line. The question is removed by
  /// the first answer, or by the decision's outcome.
  void add_question(const Decision& decision, std::string what);
  /// Removes the question about a decision. Returns false, and adds a line that the answer comes
  /// too late, if there is no such question.
  bool close_question(std::uint64_t decision);
  /// Counts the outcome of a decision, removes the question about the decision and, with
  /// `adds_line`, adds a line.
  void record_outcome(const Decided& outcome, bool adds_line);

  /// Reads the orders that have arrived and removes their files: keeps valid parameters and the
  /// first verdict on each question, and adds a line about each refused order. Looks at most four
  /// times a second.
  void read_orders();
  /// Returns the parameters since the last call, oldest first.
  std::vector<ParameterSet> drain_parameters() { return std::exchange(parameters_, {}); }
  /// Returns the verdicts since the last call, oldest first.
  std::vector<Verdict> drain_verdicts() { return std::exchange(verdicts_, {}); }
  /// Returns true from the read_orders() on that found an order to stop.
  bool is_stopped() const { return is_stopped_; }

  /// Returns true if the status is due to be published.
  bool is_due() const { return file_.is_due(); }
  /// Publishes the status.
  void publish_status(const ClusterFigures& figures);
  /// Publishes the last status of the run, and waits a little for viewers.
  void show_last(const ClusterFigures& figures);

 private:
  /// Decision that waits for an answer.
  struct Question {
    std::uint64_t decision = 0;
    Nanos at = 0;
    std::string what, why;
  };
  Nanos elapsed() const { return live::since(began_); }
  bool forget_question(std::uint64_t decision);
  void carry_out(live::Order& order);
  void follow_leases(const ClusterFigures& figures);
  nlohmann::ordered_json fields_of(const ClusterFigures& figures) const;
  std::string metrics_of(const ClusterFigures& figures) const;

  const std::string name_;
  const std::vector<std::string> policies_;
  const Objection objection_;
  const ListedFolder folder_;
  const live::Clock::time_point began_ = live::Clock::now();
  live::Clock::time_point looked_;
  live::StatusFile file_;
  std::vector<Question> questions_;
  std::vector<ParameterSet> parameters_;
  std::vector<Verdict> verdicts_;
  std::uint64_t outcomes_ = 0;       ///< number of decided decisions
  std::uint64_t lease_commands_ = 0;  ///< those of the newest figures
  std::optional<Nanos> renewed_;     ///< newest commands for leases
  bool is_stopped_ = false;
};

}  // namespace orrery::cli
