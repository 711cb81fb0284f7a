// orrery-live: without arguments the supervisor of one run, which receives its request over the
// inherited socket; `orrery-live controller DESCRIPTOR`: its controller; `orrery-live agent --rank
// R`: one rank; `orrery-live join [again]`: a rank that an engine has started; `orrery-live probe`:
// CUDA parts of this machine; `orrery-live doctor [--json]`: other parts, present or missing;
// `orrery-live calibrate RANKS,... [--quick]`: measures the machine for the client at the other end
// of the inherited socket.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "live/calibrate.hpp"
#include "live/machine/cuda_module.hpp"
#include "live/machine/doctor.hpp"
#include "live/rank/agent.hpp"
#include "live/rendezvous.hpp"
#include "live/supervisor.hpp"

namespace orrery::live {
namespace {

int print_probe() {
  const CudaProbe probe = probe_cuda();
  fmt::print("module: {}\n", probe.module_loaded ? "loaded" : "not loaded");
  fmt::print("devices: {}\n", probe.devices);
  for (const CudaDevice& device : probe.list) {
    fmt::print("  {} ({:.1f} GiB, compute capability {})\n", device.name,
               device.memory_bytes / (1 << 30), device.compute_capability);
  }
  if (!probe.reason.empty()) fmt::print("reason: {}\n", probe.reason);
  if (!probe.nccl_version.empty()) fmt::print("nccl: {}\n", probe.nccl_version);
  return 0;
}

int run_doctor(bool json) {
  const std::string own = sibling_program("orrery-live");
  const Diagnosis found = diagnose(own.substr(0, own.rfind('/')), "/sys");
  fmt::print("{}", json ? print_json(found) : print_text(found));
  return found.is_complete() ? 0 : static_cast<int>(ErrorKind::environment);
}

/// "2,4" as numbers.
std::vector<std::uint32_t> numbers(const std::string& text) {
  std::vector<std::uint32_t> out;
  std::istringstream stream(text);
  for (std::string each; std::getline(stream, each, ',');) {
    out.push_back(static_cast<std::uint32_t>(std::strtoul(each.c_str(), nullptr, 10)));
  }
  return out;
}

int run_calibrate(const std::vector<std::string>& arguments) {
  const MachineMeasurements measured = measure_machine(
      {.quick = arguments.size() > 2 && arguments[2] == "--quick", .ranks = numbers(arguments[1])});
  if (write_message(kChildDescriptor, measured.SerializeAsString())) return 0;
  throw Error(ErrorKind::usage, "`orrery-live calibrate` is started by `orrery calibrate`");
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return run_supervisor();
  if (arguments.size() == 2 && arguments[0] == "controller") {
    return run_controller(static_cast<int>(std::strtol(arguments[1].c_str(), nullptr, 10)));
  }
  if (arguments.size() == 3 && arguments[0] == "agent" && arguments[1] == "--rank") {
    return run_agent(static_cast<std::uint32_t>(std::strtoul(arguments[2].c_str(), nullptr, 10)));
  }
  if (!arguments.empty() && arguments[0] == "join") return run_join(arguments.size() > 1);
  if (arguments.size() == 1 && arguments[0] == "probe") return print_probe();
  if (!arguments.empty() && arguments[0] == "doctor") {
    return run_doctor(arguments.size() > 1 && arguments[1] == "--json");
  }
  if (arguments.size() > 1 && arguments[0] == "calibrate") return run_calibrate(arguments);
  throw Error(ErrorKind::usage, "orrery-live is started by `orrery live`");
}

}  // namespace
}  // namespace orrery::live

int main(int count, char** values) {
  const std::string role = count > 1 ? values[1] : "";
  if (role == "controller" || role == "agent") {
    // Controller and agents end with their supervisor, which receives signals to the whole group.
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGTERM, SIG_IGN);
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of write(), no more
  google::protobuf::SetLogHandler(nullptr);  // each refusal is reported once, at its place
  try {
    return orrery::live::run({values + 1, values + count});
  } catch (const orrery::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.kind());
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(orrery::ErrorKind::internal);
  }
}
