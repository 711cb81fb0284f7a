#include "cli/shared/step_options.hpp"

#include "cli/shared/usage.hpp"

namespace orrery::cli {

void declare_model(LayoutQuestion& asked, CLI::App& command) {
  command
      .add_option("--model", asked.model,
                  "model preset (orrery list models), or a config.json, arguments of "
                  "Megatron-LM or a torchtitan TOML")
      ->type_name("NAME|FILE");
}

void declare_step(LayoutQuestion& asked, CLI::App& command) {
  whole_number(*command.add_option("--sequence-length", asked.sequence_length,
                                   "tokens of a sequence (default: 8192)"),
               1, 100'000'000)
      .type_name("N");
  whole_number(*command.add_option("--global-batch", asked.global_batch, "sequences of a step"), 1,
               100'000'000)
      .type_name("N");
  number(*command.add_option("--tokens-per-batch", asked.tokens_per_batch,
                             "tokens of a step (default: 4,194,304)"),
         1, 1e12)
      .type_name("N");
  command
      .add_option("--stack", asked.stack,
                  "software stack (orrery list stacks; default: nemo), or a file of orrery "
                  "calibrate --runs")
      ->type_name("NAME|FILE");
  command
      .add_option("--precision", asked.precision,
                  "precision of the matrix products (default: "
                  "bf16)")
      ->type_name("NAME");
}

CLI::Option* declare_kernels(std::string& file, CLI::App& command) {
  return command
      .add_option("--kernels", file,
                  "kernels that `orrery calibrate --kernels` read from a node's own measurements, "
                  "in place of the catalogue's prices of its GPU")
      ->type_name("KERNELS.yaml");
}

}  // namespace orrery::cli
