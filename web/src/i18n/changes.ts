/** Strings of the files that an answer changed, and of the setting that opens results. */

const changesEn = {
  filesChanged: (count: number) => (count === 1 ? "1 file changed" : `${count} files changed`),
  noChanges: "This run changed no files.",
  changesUnavailable: "Couldn’t load the changes.",
  changesUnknown: "The changes of this run are unknown.",
  changesCut: "Some files are not listed.",
  statuses: { added: "Added", changed: "Changed", removed: "Removed", renamed: "Renamed" } as Readonly<
    Record<string, string>
  >,
  renamedFrom: (path: string) => `from ${path}`,
  noDiff: "No diff for this file.",
  autoOpenPanel: "Open results automatically",
};

const changesZh: typeof changesEn = {
  filesChanged: (count) => `更改了 ${count} 个文件`,
  noChanges: "此次运行没有更改文件。",
  changesUnavailable: "无法加载更改。",
  changesUnknown: "此次运行的更改未知。",
  changesCut: "部分文件未列出。",
  statuses: { added: "新增", changed: "修改", removed: "删除", renamed: "重命名" },
  renamedFrom: (path) => `原为 ${path}`,
  noDiff: "此文件没有差异。",
  autoOpenPanel: "自动打开结果",
};

export const changeStrings = { en: changesEn, zh: changesZh } as const;
