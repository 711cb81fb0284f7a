// Operators of a run from the command line: the options of simulate and live about the mode of
// decisions, and the user at the terminal or the shell command that approves decisions. SIGUSR1 is
// the kill switch while an operator exists. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>

#include "policies/handover/hand_over.hpp"
#include "policies/run/worker.hpp"

namespace orrery::cli {

/// Reactions to an error of the policies: the run continues without them, or ends.
enum class OnPolicyError : std::uint8_t { continue_static, stop };
constexpr std::array<std::string_view, 2> names_of(OnPolicyError) { return {"static", "stop"}; }

/// Options about the mode of decisions: --mode, --hook, --kill-switch and others.
struct OperatorOptions {
  std::string mode = "drive";   ///< "drive", "shadow" or "approve"
  std::string hook;             ///< shell command; empty: the user at the terminal answers
  double hook_timeout_s = 0;    ///< time for an answer of the hook; 0: 60 s, simulate 600 s
  bool attended = false;        ///< true: `orrery attach` answers, not the terminal
  std::string kill_switch;      ///< file, or empty
  std::string on_policy_error;  ///< name of an OnPolicyError
  double policy_timeout_s = 0;  ///< limit of a call of the policies; 0: none
  std::uint32_t per_hour = 0;   ///< limit of applied decisions; 0: no limit

  /// Declares the options; this object must outlive the parsing of the command line.
  void add(CLI::App& command, const std::string& default_on_policy_error,
           double default_policy_timeout_s);
  /// Writes the options into the request of a run. `waits`: the run stalls until a question is
  /// answered. Throws a usage error if --hook is given in a mode without approval, --attended
  /// without approval or with `waits`, if the hook or the kill switch cannot work, or if the mode
  /// needs approval and no terminal, hook or --attended gives answers.
  void fill(RunRequest& request, bool waits) const;
  /// Returns the operator that the options describe; the caller keeps it until the run has ended.
  /// Forgets an earlier SIGUSR1 and handles SIGUSR1 until the operator is destroyed. At most one
  /// operator may exist. `waits`: see fill().
  std::unique_ptr<Operator> make_operator(bool waits) const;
};

/// Approver of a run in this process: forwards each question to an operator, and the operator's
/// answers back.
class OperatorApprover : public Approver {
 public:
  /// `operated` must outlive this object.
  explicit OperatorApprover(Operator& operated) : operated_(operated) {}

  void request_approval(const Decision& decision, Nanos now) override;
  std::vector<Verdict> verdicts() override;

 private:
  Operator& operated_;
};

}  // namespace orrery::cli
