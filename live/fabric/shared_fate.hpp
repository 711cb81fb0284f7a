// Fate-sharing: all links of a rank work or break together, so that all ranks of an epoch learn of
// a death. The thread that notices a failure reports the reason; objects with something to close
// register beforehand. Nothing is repaired: another epoch has another fate. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace orrery::live {

/// Common state of all links of a rank: working or broken.
class SharedFate {
 public:
  /// Callback that ends waits and prevents later operations; must not call this object.
  using Close = std::function<void(const std::string& why)>;
  /// Registers a callback that is called once, when the first link breaks, or at once if one has
  /// broken. The object that it closes may be destroyed only after that.
  void on_break(Close close);
  /// Breaks all links; returns when all callbacks have returned. Only the first reason counts, and
  /// a later call does nothing.
  void break_all(const std::string& why);

  /// Returns true if a link has broken.
  bool is_broken() const { return broken_; }
  /// Throws FabricBroken with the reason if a link has broken.
  void throw_if_broken() const;

 private:
  mutable std::mutex mutex_;  // guards the next two
  std::string why_;
  std::vector<Close> closes_;
  std::atomic<bool> broken_ = false;
};

}  // namespace orrery::live
