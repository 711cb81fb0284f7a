#include "live/kubernetes/adapter.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/process.hpp"

namespace orrery::live {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;
constexpr std::chrono::seconds kEndGrace(6);

class AdapterProcess : public KubeAdapter {
 public:
  explicit AdapterProcess(AdapterProgram program) : program_(std::move(program)) { start(); }
  /// Lets the process end by itself, so that it gives the leadership up.
  ~AdapterProcess() override {
    if (!child_) return;
    child_->close_channel();
    child_->wait_for(kEndGrace);
  }
  AdapterProcess(const AdapterProcess&) = delete;
  AdapterProcess& operator=(const AdapterProcess&) = delete;

  KubeReading read_cluster(bool acts) override {
    if (!child_) start();
    const Json message{{"read", {{"acts", acts}, {"since", state_.version()}}}};
    return state_.apply(parse_reading(request(message)));
  }
  std::vector<std::string> place_gangs(const std::vector<GangOrder>& orders) override {
    Json places = Json::array();
    for (const GangOrder& order : orders) {
      places.push_back(Json{{"gang", order.gang}, {"nodes", order.nodes}});
    }
    return refusals_in(request(Json{{"place", std::move(places)}}), orders.size());
  }
  std::string evict_gang(const std::string& id) override {
    return refusal_in(request(Json{{"evict", id}}));
  }

 private:
  void start();

  std::string request(const Json& message) {
    if (!child_) start();
    if (!write_message(child_->channel(), message.dump())) report_end();
    return receive();
  }

  /// Returns the next message. Ends the process if there is none in time.
  std::string receive() {
    const Clock::time_point deadline = Clock::now() + program_.patience;
    while (true) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd waiting{child_->channel(), POLLIN, 0};
      const int ready = poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
      if (ready < 0 && errno == EINTR) continue;
      if (ready > 0) break;
      child_->signal(SIGKILL);
      child_.reset();
      throw Error(ErrorKind::environment,
                  fmt::format("Kubernetes: expected an answer within {:g} s, found none",
                              std::chrono::duration<double>(program_.patience).count()));
    }
    std::optional<std::string> message = read_message(child_->channel());
    if (!message) report_end();
    return std::move(*message);
  }

  [[noreturn]] void report_end() {
    child_->close_channel();
    const std::optional<ExitStatus> status = child_->wait_for(std::chrono::seconds(2));
    child_.reset();
    throw Error(ErrorKind::environment,
                fmt::format("the process that talks to Kubernetes ended: {}",
                            status ? status->description() : "it did not answer"));
  }

  static std::string failure_in(const Json& message) {
    const bool has_reason =
        message.is_object() && message.contains("failed") && message.at("failed").is_string();
    return has_reason ? message.at("failed").get<std::string>()
                      : "Kubernetes: expected an answer, found another message";
  }

  static std::string refusal_in(const std::string& message) {
    const Json answer = Json::parse(message, nullptr, false);
    if (answer.is_object() && answer.contains("refused") && answer.at("refused").is_string()) {
      return answer.at("refused").get<std::string>();
    }
    throw Error(ErrorKind::environment, failure_in(answer));
  }

  /// Returns the reasons in an answer to `count` orders.
  static std::vector<std::string> refusals_in(const std::string& message, std::size_t count) {
    const Json answer = Json::parse(message, nullptr, false);
    std::vector<std::string> refusals;
    if (answer.is_object() && answer.contains("refused") && answer.at("refused").is_array()) {
      for (const Json& each : answer.at("refused")) {
        if (each.is_string()) refusals.push_back(each.get<std::string>());
      }
      if (refusals.size() == count) return refusals;
    }
    throw Error(ErrorKind::environment, failure_in(answer));
  }

  const AdapterProgram program_;
  std::optional<ChildProcess> child_;
  KubeState state_;  ///< as the present process has shown it
};

void AdapterProcess::start() {
  state_ = {};
  child_.emplace(program_.path, program_.arguments, ChildGroup::own);
  const Json first = Json::parse(receive(), nullptr, false);
  if (first.is_object() && first.contains("ready")) return;
  throw Error(ErrorKind::environment, failure_in(first));
}

}  // namespace

std::unique_ptr<KubeAdapter> start_adapter(AdapterProgram program) {
  return std::make_unique<AdapterProcess>(std::move(program));
}

}  // namespace orrery::live
