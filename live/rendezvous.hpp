// How the processes of a run meet that an engine (Slurm, a launcher in the manner of torchrun, ssh)
// has started, one a rank: in a folder that only this user may enter, on a file system that all
// machines share or copied to each beforehand. Rank 0's process is the controller: it leaves the
// secrets there, unless they are there, and its address. The others wait for it. One thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "live/control.pb.h"
#include "live/transport/secrets.hpp"
#include "traces/run.pb.h"

namespace orrery::live {

/// The address of this machine from which `host` is reached: an address of its own is itself.
/// Sends nothing. Throws an environment Error if there is none.
std::string address_towards(const std::string& host);

/// The host of "host:port"; "[::1]" keeps its brackets.
std::string host_of(const std::string& address);

/// Rank 0's side. What it has put into the folder goes away with it.
class MeetingPoint {
 public:
  /// Makes the folder if it is not there, and secrets if the user has left none there. Throws an
  /// environment Error if that cannot be done, or others may enter the folder.
  MeetingPoint(const Rendezvous& rendezvous, bool encrypted);
  ~MeetingPoint();
  MeetingPoint(const MeetingPoint&) = delete;
  MeetingPoint& operator=(const MeetingPoint&) = delete;

  const std::string& folder() const { return folder_; }
  const Secrets& secrets() const { return secrets_; }
  /// Who signs what is in the folder; null: what the user has left there is the user's to renew.
  Authority* authority() { return authority_ ? &*authority_ : nullptr; }
  /// Where the controllers are to listen, and at which address of this machine rank 0's agent.
  const std::string& controller_address() const { return controller_; }
  const std::string& host() const { return host_; }
  /// The controller listens at `address` now.
  void announce(const std::string& address);

 private:
  const std::string folder_;
  bool made_folder_ = false, made_secrets_ = false;
  std::optional<Authority> authority_;
  Secrets secrets_;
  std::string host_, controller_;
};

/// The side of every other rank: waits until the controller can be reached and says how its agent
/// is to be started. Throws an environment Error after `patience`.
AgentStart await_controller(const Rendezvous& rendezvous, bool encrypted,
                            std::chrono::milliseconds patience);

/// Body of `orrery-live join`: reads a RunRequest from the inherited socket, waits for the
/// controller, and is the agent of its rank. Returns the exit code.
int run_join();

}  // namespace orrery::live
