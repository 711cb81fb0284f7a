// Live runs of this user as their folders show them (live/run/files/run_files.hpp), for the
// commands of another terminal: `orrery runs`, `status`, `attach`, `set`, `drain` and `stop`. One
// thread.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

namespace orrery::cli {

/// Live run as its folder shows it.
struct LiveRun {
  std::string id;  ///< end of the folder's name
  std::string folder;
  nlohmann::ordered_json status;  ///< null: the run has not published a status yet

  /// Reads the newest status; null if there is none that is complete.
  void read_status();
  /// Returns true while the run has not ended.
  bool is_living() const;
  /// Returns true for a run of `orrery cluster`.
  bool is_cluster() const;
  /// Returns true for a twin of `orrery twin`.
  bool is_twin() const;
  /// Returns a text of the status; "-" without the key.
  std::string text(const char* key) const {
    return status.is_object() ? status.value(key, std::string("-")) : "-";
  }
  /// Returns a number of the status; 0 without the key, or for another value.
  template <class Number>
  Number number(const char* key) const {
    return status.is_object() && status.contains(key) && status[key].is_number()
               ? status[key].get<Number>()
               : Number{};
  }
  /// Returns a list of the status; empty without the key.
  nlohmann::ordered_json list(const char* key) const {
    return status.is_object() ? status.value(key, nlohmann::ordered_json::array())
                              : nlohmann::ordered_json::array();
  }
  /// Returns the newest checkpoint as text, for example "step 20"; "none" without one.
  std::string checkpoint() const;
};

/// Returns the live runs of this user, with their statuses, in the order of their ids.
std::vector<LiveRun> find_runs();

/// Returns the run with this id, prefix of an id, or scenario name; the only run if no name is
/// given. Throws a usage Error that lists the runs if none fits or several do.
LiveRun find_run(const std::string& name);

/// Adds the argument RUN of a command, a name for find_run(), to `command`. `name` must outlive
/// `command`.
void add_run_argument(CLI::App& command, std::string& name, bool required);

}  // namespace orrery::cli
