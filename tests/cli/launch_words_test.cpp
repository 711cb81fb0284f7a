#include "cli/shared/launch_words.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::cli {
namespace {

using Words = std::vector<std::string>;

TEST(LaunchWords, APlainCommandIsTheCommandOfEveryRank) {
  const Launch launch = read_launch({"python", "train.py", "--nnodes", "2"}, 4);
  EXPECT_EQ(launch.ranks, 4u);
  EXPECT_EQ(launch.command, (Words{"python", "train.py", "--nnodes", "2"}));
  EXPECT_FALSE(launch.is_torchrun);
  EXPECT_EQ(read_launch({"./train"}, std::nullopt).ranks, 1u);
}

TEST(LaunchWords, TorchrunsOptionsEndAtTheScript) {
  for (const Words& options :
       {Words{"--nproc-per-node", "4"}, Words{"--nproc_per_node=4"},
        Words{"--standalone", "--nnodes=1", "--nproc-per-node=4", "--master-port", "29501"},
        Words{"--virtual-local-rank", "--nproc_per_node=4", "-r", "3", "--log_dir", "logs"}}) {
    Words words{"/opt/bin/torchrun"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"train.py", "--nproc-per-node", "9"});
    const Launch launch = read_launch(words, std::nullopt);
    EXPECT_EQ(launch.ranks, 4u);
    EXPECT_EQ(launch.command, (Words{"/opt/bin/torchrun", "train.py", "--nproc-per-node", "9"}));
    EXPECT_TRUE(launch.is_torchrun);
    EXPECT_EQ(read_launch(words, 2).ranks, 2u);
  }
}

TEST(LaunchWords, ModulesAndProgramsOfTorchrun) {
  const Launch module =
      read_launch({"python3", "-m", "torch.distributed.run", "-m", "my.train", "x"}, std::nullopt);
  EXPECT_EQ(module.command, (Words{"python3", "-m", "my.train", "x"}));
  const Launch program = read_launch({"torchrun", "--no-python", "./train", "x"}, std::nullopt);
  EXPECT_EQ(program.command, (Words{"./train", "x"}));
  EXPECT_FALSE(program.is_torchrun);
}

TEST(LaunchWords, SeveralMachinesAndOtherMistakesAreRefused) {
  for (const Words& words :
       {Words{"torchrun", "--nnodes=2", "train.py"}, Words{"torchrun", "--nproc-per-node=gpu", "a"},
        Words{"torchrun", "--standalone"}, Words{"torchrun", "--nproc-per-node=0", "a"},
        Words{"torchrun", "--unknown", "3", "train.py"}}) {
    try {
      read_launch(words, std::nullopt);
      ADD_FAILURE() << words[1];
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
    }
  }
}

}  // namespace
}  // namespace orrery::cli
