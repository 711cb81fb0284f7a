// Fate-sharing: all links of a rank hold or break together, so that a death runs through all ranks
// of an epoch. Whoever notices that one is gone says why; whoever has something to close then says
// so beforehand. Nothing is mended: an epoch of its own has a fate of its own. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace orrery::live {

class SharedFate {
 public:
  /// Ends what is waiting, and lets nothing begin; calls nothing of this object.
  using Close = std::function<void(const std::string& why)>;
  /// To be called once, when the first link breaks: at once if one has. What it closes may only go
  /// away after that.
  void on_break(Close close);
  /// Returns when all is closed; only the first reason counts.
  void break_all(const std::string& why);

  bool broken() const { return broken_; }
  /// FabricBroken, with the reason.
  void throw_if_broken() const;

 private:
  mutable std::mutex mutex_;  // of the next two
  std::string why_;
  std::vector<Close> closes_;
  std::atomic<bool> broken_ = false;
};

}  // namespace orrery::live
