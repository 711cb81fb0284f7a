#include "live/transport/doorman.hpp"

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace orrery::live {
namespace {

using Steady = std::chrono::steady_clock;

// Thread that cancels calls whose handshake has timed out.
class Doorman {
 public:
  static Doorman& instance() {
    static auto* const only = new Doorman;  // The thread outlives main().
    return *only;
  }
  void add(grpc::ServerContext* call) {
    const std::scoped_lock lock(mutex_);
    waiting_[call] = Steady::now() + kDoorPatience;
    changed_.notify_all();
  }
  void drop(grpc::ServerContext* call) {
    const std::scoped_lock lock(mutex_);
    waiting_.erase(call);
  }

 private:
  Doorman() {
    std::thread([this] { work(); }).detach();
  }
  [[noreturn]] void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !waiting_.empty(); });
      changed_.wait_for(lock, kDoorPatience / 8);
      const auto now = Steady::now();
      for (auto& [call, until] : waiting_) {
        if (now > until) call->TryCancel();  // A repeated cancel is harmless.
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<grpc::ServerContext*, Steady::time_point> waiting_;
};

}  // namespace

AtTheDoor::AtTheDoor(grpc::ServerContext& call) : call_(call) { Doorman::instance().add(&call_); }
AtTheDoor::~AtTheDoor() { Doorman::instance().drop(&call_); }

}  // namespace orrery::live
