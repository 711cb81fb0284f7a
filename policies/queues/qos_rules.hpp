// Qualities of service (QOS) as Slurm has them: priorities, limits of the GPUs of a QOS and of each
// of its users, and which QOS preempts which. Read by the queue policy multifactor. Plain values;
// one thread.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace orrery {

/// Quality of service.
struct Qos {
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

  std::string name;
  double priority = 0;
  std::uint64_t gpus = kNoLimit;           ///< limit of all its jobs at a time
  std::uint64_t gpus_per_user = kNoLimit;  ///< limit of the jobs of one user in the QOS
  std::vector<std::string> preempts = {};  ///< QOS whose running jobs make room
};

/// Table of all QOS. A job of a QOS that the table lacks has the factor 0, no limits, preempts no
/// job and is not preempted.
///
/// For example, with the priorities 100 and 25 the factors are 1 and 0.25.
class QosTable {
 public:
  QosTable() = default;
  /// Throws bad_input for two QOS of one name, and for a preempted QOS that is not in the list or
  /// is the QOS itself.
  explicit QosTable(std::vector<Qos> all);

  /// Returns the QOS; null if the table lacks it.
  const Qos* find(const std::string& name) const;
  /// Returns the priority over the largest one of the table, 0 to 1.
  double factor(const std::string& name) const;
  /// Returns true if any QOS preempts another.
  bool has_preemption() const { return has_preemption_; }
  /// Returns true if waiting jobs of `waiting` preempt running jobs of `running`.
  bool can_preempt(const std::string& waiting, const std::string& running) const;

 private:
  std::map<std::string, Qos> all_;
  double largest_ = 0;
  bool has_preemption_ = false;
};

/// GPUs in use by QOS and user, beside their limits. `table` must outlive it.
class QosUse {
 public:
  explicit QosUse(const QosTable& table) : table_(table) {}

  /// Returns true if `gpus` more GPUs keep both limits of the job's QOS. An empty user is unknown
  /// and has no limit.
  bool fits(const std::string& qos, const std::string& user, std::uint64_t gpus) const;
  void add(const std::string& qos, const std::string& user, std::uint64_t gpus);
  /// Removes GPUs that were added with the same names.
  void remove_gpus(const std::string& qos, const std::string& user, std::uint64_t gpus);

 private:
  const QosTable& table_;
  std::map<std::string, std::uint64_t> used_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> used_by_user_;
};

}  // namespace orrery
