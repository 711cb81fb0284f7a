#include "cli/shared/kubernetes_access.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/shared/package_python.hpp"

namespace orrery::cli {
namespace {

// A Python without the package says so as the adapter would.
constexpr const char* kAdapterScript =
    "import json, socket, struct, sys\n"
    "sys.path[:0] = sys.argv[1:2]\n"
    "try:\n"
    "    from orrery.kube import adapter\n"
    "except ImportError as problem:\n"
    "    text = ('expected a Python with the packages orrery and kubernetes, found none: '\n"
    "            f'{sys.executable}: {problem}; run pip install orrery[kubernetes] or set '\n"
    "            'ORRERY_PYTHON to the Python that has them')\n"
    "    body = json.dumps({'failed': text}).encode()\n"
    "    socket.socket(fileno=3).sendall(struct.pack('<I', len(body)) + body)\n"
    "    sys.exit(0)\n"
    "sys.exit(adapter.main(sys.argv[2:]))\n";

}  // namespace

void KubernetesAccess::add_access(CLI::App& command) {
  command.add_option("--kubeconfig", kubeconfig, "file with the access to the cluster")
      ->type_name("FILE");
  command.add_option("--context", context, "context of the kubeconfig file")->type_name("NAME");
  command
      .add_option("--rack-label", rack_labels,
                  "label that names the rack of a node; repeat for several, the first present one "
                  "counts (default: those of NVIDIA's topograph, then topology.kubernetes.io/rack)")
      ->type_name("LABEL")
      ->allow_extra_args(false);
}

live::AdapterProgram KubernetesAccess::adapter_program() const {
  const PackagePython python = package_python();
  live::AdapterProgram program{
      .path = "/usr/bin/env",
      .arguments = {python.interpreter, "-c", kAdapterScript, python.folder}};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) program.arguments.push_back(fmt::format("{}={}", name, value));
  };
  for (const std::string& name : namespaces) add("--namespace", name);
  for (const std::string& label : rack_labels) add("--rack-label", label);
  add("--kubeconfig", kubeconfig);
  add("--context", context);
  return program;
}

}  // namespace orrery::cli
