// Rendezvous of the processes of a run that an engine (Slurm, a launcher like torchrun, ssh) has
// started, one for each rank: in a folder that only this user may enter, on a file system that all
// machines share or copied to each beforehand. Rank 0's process is the controller: it writes the
// secrets, unless they exist, and its address. The others wait for it. One thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "live/control.pb.h"
#include "live/transport/secrets.hpp"
#include "traces/run.pb.h"

namespace orrery::live {

/// Returns the address of this machine from which `host` is reached, without a port, IPv6 in
/// brackets; the machine's own addresses are returned unchanged. Sends nothing to `host`. Throws an
/// environment Error if `host` is unknown or no route exists.
std::string address_towards(const std::string& host);

/// Returns the host of "host:port", the text before the last colon; "[::1]" keeps its brackets. All
/// of `address` without a colon.
std::string host_of(const std::string& address);

/// Rank 0's side of the rendezvous. The destructor deletes the address file, the secrets unless the
/// user has provided them, and the folder if this object has created it.
class MeetingPoint {
 public:
  /// Creates the folder if it is missing (deleted by a signal that ends the process, too), and
  /// secrets if the user has provided none; replaces the secrets of a killed run. Does not publish
  /// an address. Throws an environment Error if that fails, if others may enter the folder, if the
  /// folder has a foreign file named `controller`, or if the host `listen` is unknown or no route
  /// to it exists; the files made so far then stay.
  MeetingPoint(const Rendezvous& rendezvous, bool encrypted);
  ~MeetingPoint();
  MeetingPoint(const MeetingPoint&) = delete;
  MeetingPoint& operator=(const MeetingPoint&) = delete;

  const std::string& folder() const { return folder_; }
  /// Returns the secrets as of the construction, without later renewals.
  const Secrets& secrets() const { return secrets_; }
  /// Returns the authority that signs the certificates; null if the user has provided secrets,
  /// which the user must renew.
  Authority* authority() { return authority_ ? &*authority_ : nullptr; }
  /// Returns the address at which controllers listen: the declared one, otherwise host() with port
  /// 0, which announce_address() does not change.
  const std::string& controller_address() const { return controller_; }
  /// Returns the address of this machine for rank 0's agent.
  const std::string& host() const { return host_; }
  /// Publishes the address of a listening controller, in place of an earlier one. Throws an
  /// environment Error if the file cannot be written.
  void announce_address(const std::string& address);

 private:
  const std::string folder_;
  bool made_folder_ = false, made_secrets_ = false;
  std::optional<Authority> authority_;
  Secrets secrets_;
  std::string host_, controller_;
};

/// Waits until the controller is reachable and returns the start parameters of this rank's agent;
/// side of every other rank. Blocks at most for about `patience`, with at least one attempt; a
/// missing folder, address or secret is waited for too. Throws an environment Error after
/// `patience`.
AgentStart await_controller(const Rendezvous& rendezvous, bool encrypted,
                            std::chrono::milliseconds patience);

/// Runs `orrery-live join`: reads a RunRequest from the inherited socket, waits for the controller,
/// and is the agent of its rank. `again`: an earlier process of the rank lost the run, so that the
/// wait begins after a pause of 1 s and lasts 20 s, not 60 s. Returns the exit code, kJoinAgain
/// included (live/control/protocol.hpp). Throws a usage Error without a request, and the errors of
/// check_request(), await_controller() and run_agent().
int run_join(bool again);

}  // namespace orrery::live
