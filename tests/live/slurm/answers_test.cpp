#include "live/slurm/answers.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "tests/live/slurm/recorded.hpp"

namespace orrery::live {
namespace {

using Names = std::vector<std::string>;

/// Returns the error of `act` with its place; fails the test if there is none.
template <class Act>
std::string error_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected an error";
  return {};
}

TEST(SlurmAnswers, JobsOfARealQueueAreRead) {
  const std::vector<SlurmJob> jobs = parse_jobs(kSqueueAnswer);
  ASSERT_EQ(jobs.size(), 9u);
  EXPECT_EQ(jobs[0].phase, SlurmPhase::ended);
  EXPECT_EQ(jobs[0].placed_on, (Names{"n1", "n2"}));
  EXPECT_EQ(jobs[0].gpus_per_node, 3u);
  EXPECT_EQ(jobs[1].phase, SlurmPhase::placed);
  EXPECT_EQ(jobs[1].account, "ours");
  EXPECT_EQ(jobs[1].gpus_per_node, 5u);
  EXPECT_FALSE(jobs[1].is_uneven);
  EXPECT_EQ(jobs[2].id, "5_1");
  EXPECT_EQ(jobs[2].eligible_s, 1795688029);
  EXPECT_EQ(jobs[3].gpus_per_node, 4u);
  EXPECT_EQ(jobs[3].limit_s, 0);
  EXPECT_EQ(jobs[4].required_nodes, (Names{"n3", "n6"}));
  EXPECT_EQ(jobs[4].restarts, 1u);
  EXPECT_TRUE(jobs[5].is_held);
  EXPECT_EQ(jobs[5].reason, "BadConstraints");
  EXPECT_EQ(jobs[6].gpus_per_node, 0u);
  EXPECT_TRUE(jobs[6].has_unmet_dependency());
  EXPECT_EQ(jobs[6].dependency, "afterok:1(unfulfilled)");
  EXPECT_FALSE(jobs[7].has_unmet_dependency());
  EXPECT_EQ(jobs[7].gpus_per_node, 2u);
  EXPECT_TRUE(jobs[8].is_uneven);
  EXPECT_EQ(jobs[8].limit_s, 90000);
}

TEST(SlurmAnswers, ANameWithSeparatorsAndLineBreaksIsOnlyAName) {
  const Names expected{"train-a", "a b",      "x|y", "line\n2|99|\nz",
                       " lead",   "\xc3\xbc", "",    std::string(64, 'x'),
                       "wrap"};
  Names names;
  for (const SlurmJob& job : parse_jobs(kSqueueAnswer)) names.push_back(job.name);
  EXPECT_EQ(names, expected);
  // A name that copies a whole row, up to the width of the column.
  std::string answer = kSqueueAnswer;
  const std::string forged = "\n2|1|FAILED|eve|||0|1:00|1|n1|||||||||0|(null)|x|\n9|";
  answer.replace(answer.find("train-a"), forged.size(), forged);
  const std::vector<SlurmJob> jobs = parse_jobs(answer);
  ASSERT_EQ(jobs.size(), expected.size());
  EXPECT_EQ(jobs[0].name, forged);
  EXPECT_EQ(jobs[1].user, "bob");
  answer.insert(answer.find("a b"), " ");
  EXPECT_NE(error_of([&] {
              parse_jobs(answer);
            }).find("Name: expected 64 bytes and '|' at the end of the line, found 66 bytes"),
            std::string::npos);
}

TEST(SlurmAnswers, ATextOfAnOperatorCannotReplaceTheFieldsOfANode) {
  const std::vector<SlurmNode> nodes = parse_nodes(kNodesAnswer);
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_TRUE(nodes[0].is_usable);
  EXPECT_EQ(nodes[0].partitions, (Names{"orrery", "other"}));
  EXPECT_EQ(nodes[1].gpus, 4u);
  EXPECT_FALSE(nodes[1].is_usable);
  EXPECT_EQ(nodes[1].state, "IDLE+DRAIN");
  EXPECT_FALSE(nodes[2].is_usable);
}

TEST(SlurmAnswers, NodesOfTheManagedPartitions) {
  const std::vector<SlurmNode> nodes = parse_nodes(kNodesAnswer);
  EXPECT_EQ(managed_nodes(nodes, {}).size(), 3u);
  const std::vector<QueueNode> ours = managed_nodes(nodes, {"orrery"});
  ASSERT_EQ(ours.size(), 2u);
  EXPECT_EQ(ours[1].name, "n2");
  EXPECT_NE(error_of([&] { managed_nodes(nodes, {"debug"}); }).find("Gres=gpu:N"),
            std::string::npos);
}

TEST(SlurmAnswers, EndsAndBootTimeAreRead) {
  const std::vector<SlurmEnd> ends = parse_ends(kSacctAnswer);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].id, "14_2");
  EXPECT_EQ(ends[0].how, Ending::completed);
  EXPECT_EQ(ends[0].ran_s, 60);
  EXPECT_EQ(ends[1].how, Ending::cancelled);
  EXPECT_EQ(ends[1].ran_s, 0);
  EXPECT_EQ(parse_configuration(kConfigAnswer).boot_s, 1795687767);
  EXPECT_EQ(parse_configuration(kConfigAnswer).now_s, 1795687798);
  EXPECT_EQ(parse_configuration("Configuration data as of Monday\nBOOT_TIME = 7\n").now_s, 0);
  EXPECT_NE(error_of([] { parse_configuration("ClusterName = toy\n"); }).find("BOOT_TIME"),
            std::string::npos);
}

/// The end of a running job is that of its limit.
TEST(SlurmAnswers, RunTimesAreThoseOfEndedJobsThatStarted) {
  const std::string answer =
      "3|COMPLETED|1795687950|1795688010|\n5_1|RUNNING|1795687950|1795688250|\n"
      "7|CANCELLED|N/A|1795688010|\n9|TIMEOUT|1795687950|1795688011|\n";
  EXPECT_EQ(parse_run_times(answer), (std::map<std::string, std::int64_t>{{"3", 60}, {"9", 61}}));
  EXPECT_NE(error_of([&] { parse_run_times(answer.substr(0, 20)); }).find("cut short"),
            std::string::npos);
}

TEST(SlurmAnswers, CommentsThatLookLikeOtherJobsAreNotTaken) {
  using Comments = std::map<std::string, std::string>;
  EXPECT_EQ(parse_comments("3|a|b [orrery:7]|\n5_1||\n7|(null)|\n", {"3", "5_1", "7", "9"}),
            (Comments{{"3", "a|b [orrery:7]"}, {"5_1", ""}, {"7", ""}}));
  EXPECT_FALSE(parse_comments("3|a\nb|\n5||\n", {"3", "5"}));
  EXPECT_FALSE(parse_comments("3|a|\n5|[orrery:9]|\n5|mine|\n", {"3", "5"}));
  EXPECT_FALSE(parse_comments("3|a|\n4|b|\n", {"3", "5"}));
  EXPECT_EQ(parse_comments("3|a|\n5|b|\n", {"3"}), (Comments{{"3", "a|\n5|b"}}));
  EXPECT_FALSE(parse_comments("3|a", {"3"}));
}

TEST(SlurmAnswers, ListsOfHostsLimitsAndResources) {
  EXPECT_EQ(expand_hosts("n[1-2,04],m7"), (Names{"n1", "n2", "n04", "m7"}));
  EXPECT_EQ(expand_hosts("r[08-10]x"), (Names{"r08x", "r09x", "r10x"}));
  EXPECT_EQ(expand_hosts("(null)"), Names{});
  for (const char* wrong : {"n[1-", "n[2-1]", "n[1-99999999]", "a[1]b[2]", "n[x]", "a,,b"}) {
    EXPECT_THROW(expand_hosts(wrong), Error) << wrong;
  }
  EXPECT_EQ(count_gpus("gres:gpu:a100:2,gres:shard:9,gres/gpu:1"), 3u);
  EXPECT_EQ(count_gpus("gpu:8(S:0,1),mps:4"), 8u);
  EXPECT_EQ(count_gpus("gres:gpu"), 1u);
  EXPECT_THROW(count_gpus("gpu:8x"), Error);
  EXPECT_EQ(parse_limit("1-03:00:00"), 97200);
  EXPECT_THROW(parse_limit("5"), Error);
}

TEST(SlurmAnswers, AWrongFieldIsNamedWithLineAndColumn) {
  std::string answer = kSqueueAnswer;
  answer.replace(answer.find("RUNNING"), 7, "RUNING");
  EXPECT_NE(error_of([&] { parse_jobs(answer); })
                .find("answer of squeue:2:14: error: State: expected the state of a job, found "
                      "'RUNING'; did you mean 'RUNNING'?"),
            std::string::npos);
  const std::string local = "17|2026-11-26T10:09:58|PENDING|a|b|c|0|1:00|1||||||||||\n";
  EXPECT_NE(error_of([&] { parse_jobs(local); }).find("squeue:1:4: error: SubmitTime"),
            std::string::npos);
}

TEST(SlurmAnswers, AnAnswerThatIsCutShortIsAnError) {
  const std::string whole = kSqueueAnswer + std::string(kEndOfAnswer);
  EXPECT_EQ(complete_answer(whole, "squeue"), kSqueueAnswer);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(complete_answer(whole.substr(0, length), "squeue"), Error) << length;
  }
  EXPECT_NE(error_of([] {
              complete_answer("failed: slurm_load_jobs error: Unable to contact slurm\n", "squeue");
            }).find("squeue: slurm_load_jobs error: Unable to contact"),
            std::string::npos);
  // Within an answer, a cut is an error too, unless it falls on the end of a line.
  for (std::size_t length = 1; length < kSqueueAnswer.size(); ++length) {
    if (kSqueueAnswer[length - 1] == '\n') continue;
    EXPECT_THROW(parse_jobs(kSqueueAnswer.substr(0, length)), Error) << length;
  }
}

TEST(SlurmAnswers, MutatedAnswersAreReadOrRefusedAndNeverMore) {
  Rng rng(5);
  std::uint64_t refused = 0;
  constexpr int kMutations = 20000;
  for (int i = 0; i < kMutations; ++i) {
    const std::string& original = i % 3 == 0   ? kSqueueAnswer
                                  : i % 3 == 1 ? kNodesAnswer
                                               : kSacctAnswer;
    std::string text = original;
    for (std::uint64_t edits = 1 + rng.below(3); edits > 0; --edits) {
      const std::size_t at = rng.below(text.size());
      constexpr std::string_view kLetters = "|\n[],-=: 09AN(\xff";
      const char letter = kLetters[rng.below(kLetters.size())];
      if (rng.below(3) == 0) {
        text.erase(at, 1 + rng.below(40));
      } else {
        text[at] = letter;
      }
      if (text.empty()) text = "|";
    }
    try {
      if (i % 3 == 0) parse_jobs(text);
      if (i % 3 == 1) parse_nodes(text);
      if (i % 3 == 2) parse_ends(text);
    } catch (const Error& error) {
      ++refused;
      ASSERT_EQ(error.kind(), ErrorKind::bad_input) << text;
      ASSERT_TRUE(error.source_place()) << text;
    }
  }
  EXPECT_GT(refused, kMutations / 4);
}

}  // namespace
}  // namespace orrery::live
