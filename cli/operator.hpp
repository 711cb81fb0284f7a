// Who answers for a run from the command line: options of the commands that hand control over, and
// the person at the terminal or the command that says yes or no to decisions. SIGUSR1 is the kill
// switch while an operator lives. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <CLI/App.hpp>

#include "policies/run/worker.hpp"

namespace orrery::cli {

struct OperatorOptions {
  std::string mode = "drive";
  std::string hook;             ///< shell command; empty: the terminal is asked
  bool attended = false;        ///< `orrery attach` answers; no terminal is asked
  std::string kill_switch;      ///< file, or empty
  std::string on_policy_error;  ///< "static" or "stop"
  std::uint32_t per_hour = 0;   ///< 0: no limit

  void add(CLI::App& command, const std::string& default_on_policy_error);
  /// Mode and order of a run. `waits`: it stands still until a question is answered. Throws usage
  /// where --hook has nothing to approve, or approving nobody to ask.
  void fill(RunRequest& request, bool waits) const;
  /// Whom to ask; lives as long as the run.
  std::unique_ptr<Operator> make() const;
};

}  // namespace orrery::cli
