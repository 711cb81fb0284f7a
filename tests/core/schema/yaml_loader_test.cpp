#include "core/schema/yaml_loader.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/core/schema/load_sample.hpp"

namespace orrery {
namespace {

TEST(LoadYaml, ErrorsShowTheLineAndACaret) {
  Sample sample;
  try {
    load_yaml("title: a\ninner: {cuont: 1}\n", "s.yaml", sample);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "s.yaml:2:9: error: unknown key 'cuont' in inner; did you mean 'count'?\n"
                 "  inner: {cuont: 1}\n"
                 "          ^");
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
  }
}

TEST(LoadYaml, ClearsTheMessageFirst) {
  Sample sample;
  sample.set_small(3);
  load_yaml("title: a", "s.yaml", sample);
  EXPECT_FALSE(sample.has_small());
}

TEST(LoadYaml, EmptyFilesAreRefused) {
  EXPECT_EQ(refusal(""), "1:1: the file is empty");
  EXPECT_EQ(refusal("# nothing\n"), "1:1: the file is empty");
  EXPECT_EQ(refusal("---\n"), "1:1: the file is empty");
}

TEST(LoadYaml, PlacesAreKnownByPath) {
  Sample sample;
  const SourceMap places =
      load_yaml("title: a\ninner:\n  count: 4\nmany:\n  - {count: 1}\n", "s.yaml", sample);
  EXPECT_EQ(places.place_of("inner.count").line, 3);
  EXPECT_EQ(places.place_of("inner.count").column, 10);
  EXPECT_EQ(places.place_of("inner.count").line_text, "  count: 4");
  EXPECT_EQ(places.place_of("many[0].count").column, 13);
  EXPECT_EQ(places.place_of("inner.rate").line, 3) << "absent: what encloses it";
  EXPECT_EQ(places.place_of("many[7].count").line, 5);
  EXPECT_EQ(places.place_of("tuning.depth").line, 1);
}

TEST(LoadYamlFile, UnreadableFilesAreBadInputWithTheirName) {
  Sample sample;
  for (const std::string path : {"/nonexistent/file.yaml", "/"}) {
    try {
      load_yaml_file(path, sample);
      FAIL() << "accepted " << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      ASSERT_TRUE(error.source_place().has_value());
      EXPECT_EQ(error.source_place()->file, path);
    }
  }
}

TEST(LoadYamlFile, ReadsNoMoreThanIsAllowed) {
  Sample sample;
  EXPECT_THROW(load_yaml_file("/dev/zero", sample), Error) << "and comes back";
}

TEST(LoadYamlFile, ReadsAFile) {
  const auto path = std::filesystem::temp_directory_path() / "orrery_yaml_loader_test.yaml";
  std::ofstream(path) << "title: from a file\n";
  Sample sample;
  const SourceMap places = load_yaml_file(path.string(), sample);
  std::filesystem::remove(path);
  EXPECT_EQ(sample.title(), "from a file");
  EXPECT_EQ(places.file(), path.string());
}

TEST(CheckYaml, FindsEveryProblem) {
  Sample sample;
  const auto problems = check_yaml("titel: a\nsmall: x\ninner: {count: 65}\nwords: 3\nwait: 5\n",
                                   "s.yaml", sample);
  std::vector<int> lines;
  for (const Error& problem : problems) lines.push_back(problem.source_place()->line);
  EXPECT_EQ(lines, (std::vector<int>{1, 2, 3, 4, 5, 1})) << "the last one: 'title' is missing";
}

TEST(CheckYaml, StopsAtItsLimit) {
  Sample sample;
  EXPECT_EQ(check_yaml("a: 1\nb: 2\nc: 3\nd: 4\n", "s.yaml", sample, 2).size(), 2u);
  EXPECT_EQ(check_yaml("a: [", "s.yaml", sample).size(), 1u) << "no tree, no further problems";
  EXPECT_TRUE(check_yaml("title: a", "s.yaml", sample).empty());
}

TEST(WithPlace, FindsThePathThatAMessageBeginsWith) {
  SourceMap places("a.yaml", "job:\n  layout: 3\n");
  places.add("job.layout", 2, 3);
  const Error named(ErrorKind::bad_input, "job.layout.tensor: too wide");
  EXPECT_EQ(with_place(named, places).source_place()->line, 2);
  EXPECT_FALSE(with_place(named, SourceMap()).source_place());
  EXPECT_FALSE(with_place(Error(ErrorKind::bad_input, "too wide"), places).source_place());
  EXPECT_FALSE(with_place(Error(ErrorKind::internal, "job.layout: no"), places).source_place());
}

TEST(ProblemAt, NamesThePathWithoutAPlace) {
  EXPECT_STREQ(problem_at(SourceMap(), "job.layout", "too wide").what(),
               "error: job.layout: too wide");
  Sample sample;
  const SourceMap places = load_yaml("title: a", "s.yaml", sample);
  EXPECT_EQ(problem_at(places, "title", "bad").source_place()->column, 8);
}

}  // namespace
}  // namespace orrery
