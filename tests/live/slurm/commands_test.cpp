#include "live/slurm/commands.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/error.hpp"

namespace orrery::live {
namespace {

/// Folder with programs in front of PATH.
class Programs : public ::testing::Test {
 protected:
  Programs() {
    std::string name = (std::filesystem::temp_directory_path() / "orrery-slurm-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    path_ = getenv("PATH");
    setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
  }
  ~Programs() override {
    setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  void add(const std::string& name, const std::string& script) {
    std::ofstream(folder_ / name) << "#!/bin/sh\n" << script << "\n";
    chmod((folder_ / name).c_str(), 0755);
  }
  std::filesystem::path folder_;
  std::string path_;
};

std::string failure(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST_F(Programs, AnswersAreCompleteAndErrorsHaveTheMessageOfTheCommand) {
  add("squeue", "echo \"$SLURM_TIME_FORMAT $1\"; echo warning >&2");
  add("scontrol", "echo 'Unable to contact slurm controller' >&2; exit 1");
  const auto slurm = installed_slurm(std::chrono::seconds(10));
  EXPECT_EQ(slurm->read_jobs(), "%s -r\n");
  EXPECT_NE(failure([&] { slurm->read_nodes(); }).find("scontrol: Unable to contact slurm"),
            std::string::npos);
}

TEST_F(Programs, ACommandThatDoesNotAnswerIsAnErrorAfterTheDeadline) {
  add("squeue", "echo half; sleep 60");
  const auto slurm = installed_slurm(std::chrono::milliseconds(300));
  EXPECT_NE(failure([&] { slurm->read_jobs(); }).find("within 0.3 s, got 5 bytes"),
            std::string::npos);
}

TEST_F(Programs, LinesGoToOneProcessAndComplaintsComeBack) {
  add("scontrol",
      "while read -r line; do echo \"scontrol: $line\"; case $line in *17*) echo "
      "\"Invalid job id specified for job 17\" >&2;; esac; done");
  const auto slurm = installed_slurm(std::chrono::seconds(10));
  EXPECT_EQ(slurm->execute_commands({"requeue 16", "requeue 17", "release 18"}),
            std::vector<std::string>{"Invalid job id specified for job 17"});
  EXPECT_TRUE(slurm->execute_commands(std::vector<std::string>(350, "requeue 16")).empty());
}

TEST_F(Programs, WordsOfUpdatesHoldAnyText) {
  add("scontrol", "printf '%s.%s.\\n' $# \"$5\" >&2");  // one write: several run at once
  const auto slurm = installed_slurm(std::chrono::seconds(10));
  const std::vector<std::string> words{"update", "JobId=17", "ReqNodeList=n3", "StartTime=now"};
  std::vector<std::vector<std::string>> updates(150, words);
  for (auto& each : updates) each.push_back("Comment=it's \"so\"\t\\ [orrery:7]");
  const std::vector<std::string> said = slurm->execute_updates(updates);
  ASSERT_EQ(said.size(), 150u);
  EXPECT_EQ(said[149], "5.Comment=it's \"so\"\t\\ [orrery:7].");
  updates.resize(2);
  updates[0].push_back("Dependency=");
  EXPECT_EQ(slurm->execute_updates(updates).size(), 2u) << "each has words of its own";
}

TEST_F(Programs, ASubmittedJobHasTheWordsAloneAndARefusalTheMessageOfSbatch) {
  add("sbatch", "[ \"$3\" = refuse ] && { echo 'sbatch: error: Invalid account' >&2; exit 1; }\n"
                "env | grep -q '^SBATCH_' && exit 1\n"
                "echo warning >&2; echo '17;cluster'");
  setenv("SBATCH_EXCLUSIVE", "", 1);
  setenv("SBATCH_PARTITION", "other", 1);
  const auto slurm = installed_slurm(std::chrono::seconds(10));
  EXPECT_EQ(slurm->submit_job({"--parsable", "--wrap", "true"}), "17");
  EXPECT_NE(failure([&] { slurm->submit_job({"--parsable", "--wrap", "refuse"}); })
                .find("sbatch: sbatch: error: Invalid account"),
            std::string::npos);
  add("sbatch", "echo none");
  EXPECT_NE(failure([&] { slurm->submit_job({"--parsable"}); }).find("expected the id"),
            std::string::npos);
  unsetenv("SBATCH_EXCLUSIVE");
  unsetenv("SBATCH_PARTITION");
}

}  // namespace
}  // namespace orrery::live
