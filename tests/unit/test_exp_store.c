/* Checkpoints on disk: sealed, renamed, verified, removed; nothing outside is touched. */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/manifest.h"
#include "exp/store/store.h"
#include "torture.h"
#include "unreadable.h"

static const char uuid[] = "0f0e0d0c-0b0a-4908-8706-050403020100";

struct place {
    char dir[64];
    struct exp_store *store;
};

static void shell(const struct place *p, const char *command, int want)
{
    char line[600];
    snprintf(line, sizeof line, "cd %s && %s", p->dir, command);
    CHECK_EQ(system(line) == 0, want == 0);
}

static void begin(struct place *p)
{
    struct ebb_error err;
    snprintf(p->dir, sizeof p->dir, "/tmp/ebb-store-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    char location[128];
    snprintf(location, sizeof location, "{\"type\":\"shared_fs\",\"directory\":\"%s/c\"}", p->dir);
    CHECK_OK(exp_store_open_location(location, NULL, NULL, &p->store, &err), &err);
    CHECK_OK(exp_store_prepare(p->store, &err), &err);
}

static void end(struct place *p)
{
    struct ebb_error err;
    exp_store_close(p->store);
    CHECK_OK(exp_store_remove_tree(p->dir, &err), &err);
}

/* What a trial leaves in the staging directory. */
static void write_staging(const struct place *p, const char *more)
{
    char command[500];
    snprintf(command, sizeof command,
             "mkdir -p c/.%s.tmp/state && printf abc > c/.%s.tmp/state/w && cd c/.%s.tmp && %s",
             uuid, uuid, uuid, more);
    shell(p, command, 0);
}

static enum ebb_status publish(struct place *p, struct exp_store_item *item)
{
    *item = (struct exp_store_item){.uuid = uuid, .metadata = "{\"step_id\":3}"};
    exp_store_publish(p->store, item, 1);
    return item->status;
}

/* A place with one checkpoint. */
static void begin_with_one(struct place *p)
{
    struct exp_store_item item;
    begin(p);
    write_staging(p, "true");
    CHECK_OK(publish(p, &item), &item.err);
    ebb_str_fini(&item.resources);
}

TEST(published__is_whole_listed_and_verifies)
{
    struct place p;
    struct exp_store_item item;
    struct ebb_error err;
    begin(&p);
    write_staging(&p, "echo '{\"step_id\": 1, \"own\": true}' > metadata.json");
    CHECK_OK(publish(&p, &item), &item.err);
    CHECK(strstr(ebb_str_c(&item.resources), "\"state/\": 0") != NULL);
    CHECK(strstr(ebb_str_c(&item.resources), "\"state/w\": 3") != NULL);
    CHECK(strstr(ebb_str_c(&item.resources), "manifest.json") != NULL);
    ebb_str_fini(&item.resources);
    CHECK_OK(exp_store_verify(p.store, uuid, &err), &err);
    shell(&p, "test \"$(ls -A c)\" = 0f0e0d0c-0b0a-4908-8706-050403020100", 0);
    shell(&p, "grep -q '\"step_id\": 3' c/*/metadata.json && grep -q own c/*/metadata.json", 0);
    /* sha256 of "abc" */
    shell(&p,
          "grep -q ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad "
          "c/*/manifest.json",
          0);
    /* its XXH3, as of xxhsum -H2 */
    shell(&p, "grep -q 06b05ab6733a618578af5f94892f3950 c/*/manifest.json", 0);
    CHECK_OK(publish(&p, &item), &item.err); /* again: success (T2) */
    CHECK(strstr(ebb_str_c(&item.resources), "\"state/w\": 3") != NULL);
    ebb_str_fini(&item.resources);
    end(&p);
}

TEST(damage__is_found)
{
    static const char *const damages[] = {
        "cd c/0* && printf abd > state/w", "cd c/0* && printf ab > state/w", "rm c/*/state/w",
        "rm c/*/manifest.json", "cd c/0* && mv manifest.json m && ln -s m manifest.json",
        "cd c/0* && rm state/w && mkdir state/w", "cd c/0* && rm -r state && touch state",
        "cd c/0* && echo x > manifest.json",
        "sed -i 's|state/w|../../etc/passwd|' c/*/manifest.json",
        /* a digit of either sum, a key, a name, its own sum */
        "sed -i 's/ba7816bf/ba7816be/' c/*/manifest.json",
        "sed -i 's/06b05ab6/16b05ab6/' c/*/manifest.json",
        "sed -i 's/xxh128/xxh129/' c/*/manifest.json",
        "sed -i 's|state/w|state/v|' c/*/manifest.json",
        "sed -i -E 's/(.*\"xxh128\": \")./\\1x/' c/*/manifest.json",
        "cd c/0* && rm state/w && ln -s /etc/passwd state/w"};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        struct place p;
        struct ebb_error err;
        begin_with_one(&p);
        shell(&p, damages[i], 0);
        CHECK_EQ(exp_store_verify(p.store, uuid, &err), EBB_ECORRUPT);
        end(&p);
    }
}

/* Manifests as they were before they had XXH3: files are compared by SHA-256. */
TEST(older_manifests__are_read)
{
    static const char older[] = "sed -i -E 's/, \"xxh128\": \"[0-9a-f]*\"//g' c/*/manifest.json && "
                                "! grep -q xxh128 c/*/manifest.json";
    struct place p;
    struct ebb_error err;
    begin_with_one(&p);
    shell(&p, older, 0);
    CHECK_OK(exp_store_verify(p.store, uuid, &err), &err);
    shell(&p, "cd c/0* && printf abd > state/w", 0);
    CHECK_EQ(exp_store_verify(p.store, uuid, &err), EBB_ECORRUPT);
    CHECK(strstr(err.message, "SHA-256 of state/w") != NULL);
    end(&p);
}

/* An older manifest, whose entries nothing proves, says less than a SHA-256, or something else. */
TEST(an_entry_without_a_sha256__is_no_manifests)
{
    static const char *const changes[] = {"s/\"sha256\"/\"sha257\"/", "s/ba7816bf//",
                                          "s/ba7816bf/ba7816bfba7816bf/", "s/ba7816bf/ba7816bg/",
                                          "s/ba7816bf/ba7816\\\\r\\\\n/"};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct place p;
        struct ebb_arena arena = {0};
        struct ebb_manifest manifest;
        struct ebb_error err;
        char text[200];
        begin_with_one(&p);
        snprintf(text, sizeof text,
                 "sed -i -E 's/, \"xxh128\": \"[0-9a-f]*\"//g; %s' c/*/manifest.json", changes[i]);
        shell(&p, text, 0);
        snprintf(text, sizeof text, "%s/c/%s", p.dir, uuid);
        int dir = open(text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK_EQ(exp_store_read_manifest(dir, &arena, &manifest, &err), EBB_ECORRUPT);
        CHECK(strstr(err.message, "damaged") != NULL);
        close(dir);
        ebb_arena_fini(&arena);
        end(&p);
    }
}

static enum ebb_status verify(void *context)
{
    struct ebb_error err;
    const struct place *p = context;
    return exp_store_verify(p->store, uuid, &err);
}

/* Whoever hears of damage gives the checkpoint up. */
TEST(want_of_memory__is_no_damage)
{
    struct place p;
    begin_with_one(&p);
    torture(verify, &p, 1000);
    end(&p);
}

/* What cannot be read may be good. */
TEST(a_file_that_cannot_be_read__is_no_damage)
{
    static const char *const names[] = {"state/w", "metadata.json", "manifest.json"};
    struct place p;
    struct ebb_error err;
    begin_with_one(&p);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s/c/%s/%s", p.dir, uuid, names[i]);
        unreadable_begin(path);
        CHECK_EQ(exp_store_verify(p.store, uuid, &err), EBB_EIO);
        unreadable_end(path);
        CHECK_OK(exp_store_verify(p.store, uuid, &err), &err);
    }
    end(&p);
}

TEST(what_is_not_there__is_told_from_damage)
{
    struct place p;
    struct ebb_error err;
    begin_with_one(&p);
    CHECK_EQ(exp_store_verify(p.store, "1f0e0d0c-0b0a-4908-8706-050403020100", &err), EBB_EINPUT);
    shell(&p, "mv c d", 0);
    CHECK_EQ(exp_store_verify(p.store, uuid, &err), EBB_EINPUT);
    CHECK(strstr(err.message, "checkpoint_storage.host_path") != NULL);
    end(&p);
}

TEST(links_and_pipes__are_refused)
{
    static const char *const bad[] = {"ln -s /etc/passwd state/l", "ln -s /etc d", "mkfifo state/p",
                                      "ln -s /etc/passwd metadata.json"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct place p;
        struct exp_store_item item;
        begin(&p);
        write_staging(&p, bad[i]);
        CHECK(publish(&p, &item) != EBB_OK);
        ebb_str_fini(&item.resources);
        end(&p);
    }
}

/* What could not be read back is not published. */
TEST(names_that_cannot_be_read_back__are_refused)
{
    static const char *const names[] = {
        "touch \"$(printf 'a\\nb')\"", "touch \"$(printf 'a\\377b')\"",
        "mkdir \"$(printf 'd\\tb')\"", "touch \"$(printf 'a\\357\\277\\276b')\"", /* U+FFFE and */
        "touch \"$(printf 'a\\357\\277\\277b')\"" /* U+FFFF: no XML */};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct place p;
        struct exp_store_item item;
        begin(&p);
        write_staging(&p, names[i]);
        CHECK_EQ(publish(&p, &item), EBB_EINPUT);
        assert_non_null(strstr(item.err.message, "?b"));
        assert_non_null(strstr(item.err.message, "names are UTF-8"));
        ebb_str_fini(&item.resources);
        end(&p);
    }
}

/* A store may take shorter names than a folder. */
TEST(names_that_the_store_does_not_take__are_refused)
{
    struct place p;
    struct exp_store_item item = {.uuid = uuid, .metadata = "{}", .names = {.max = 20}};
    begin(&p);
    write_staging(&p, "touch state/78901234567890");
    exp_store_publish(p.store, &item, 1);
    CHECK_OK(item.status, &item.err);
    ebb_str_fini(&item.resources);
    CHECK_OK(exp_store_remove(p.store, uuid, NULL, NULL, NULL, &item.err), &item.err);
    write_staging(&p, "mkdir state/78901234567890");
    item = (struct exp_store_item){.uuid = uuid, .metadata = "{}", .names = {.max = 20}};
    exp_store_publish(p.store, &item, 1);
    CHECK_EQ(item.status, EBB_EINPUT);
    assert_non_null(strstr(item.err.message, "at most 20 bytes"));
    ebb_str_fini(&item.resources);
    shell(&p, "cd c/.0*.tmp && rmdir state/7* && touch a:b", 0);
    item = (struct exp_store_item){.uuid = uuid, .metadata = "{}", .names = {.without = ":"}};
    exp_store_publish(p.store, &item, 1);
    CHECK_EQ(item.status, EBB_EINPUT);
    assert_non_null(strstr(item.err.message, "control characters and :, at most"));
    ebb_str_fini(&item.resources);
    end(&p);
}

TEST(nothing_written__is_an_error_with_the_name)
{
    struct place p;
    struct exp_store_item item;
    begin(&p);
    CHECK_EQ(publish(&p, &item), EBB_EINPUT);
    assert_non_null(strstr(item.err.message, "checkpoint did not create a storage directory"));
    ebb_str_fini(&item.resources);
    end(&p);
}

TEST(remove__takes_every_form_and_follows_no_link)
{
    struct place p;
    struct ebb_error err;
    begin_with_one(&p);
    write_staging(&p, "ln -s ../../kept link"); /* staging and final at once */
    shell(&p,
          "mkdir kept c/other && touch kept/file && mkdir "
          "c/..0f0e0d0c-0b0a-4908-8706-050403020100.tmp.tmp",
          0);
    CHECK_OK(exp_store_remove(p.store, uuid, NULL, NULL, NULL, &err), &err);
    CHECK_OK(exp_store_remove(p.store, uuid, NULL, NULL, NULL, &err),
             &err); /* gone already: success */
    shell(&p, "test \"$(ls -A c)\" = other && test -f kept/file", 0);
    CHECK_EQ(exp_store_remove(p.store, "../kept", NULL, NULL, NULL, &err), EBB_EINPUT);
    CHECK_EQ(exp_store_verify(p.store, "..", &err), EBB_EINPUT);
    end(&p);
}

TEST(batch__gives_each_its_own_answer)
{
    struct place p;
    begin(&p);
    write_staging(&p, "true");
    struct exp_store_item items[2] = {
        {.uuid = "11111111-1111-4111-8111-111111111111", .metadata = "{}"},
        {.uuid = uuid, .metadata = "{}"}};
    exp_store_publish(p.store, items, 2);
    CHECK_EQ(items[0].status, EBB_EINPUT);
    CHECK_OK(items[1].status, &items[1].err);
    ebb_str_fini(&items[0].resources);
    ebb_str_fini(&items[1].resources);
    end(&p);
}

TEST(code__is_copied_and_paths_cannot_escape)
{
    struct place p;
    struct exp_store_item item = {.uuid = uuid, .metadata = "{}"};
    struct ebb_error err;
    struct exp_store_file files[] = {{.path = "pkg", .is_directory = true},
                                     {.path = "pkg/a.py", .mode = 0755, .data = "x", .length = 1}};
    begin(&p);
    write_staging(&p, "true");
    item.code = files;
    item.code_count = 2;
    exp_store_publish(p.store, &item, 1);
    CHECK_OK(item.status, &item.err);
    CHECK(strstr(ebb_str_c(&item.resources), "code/pkg/a.py") != NULL);
    ebb_str_fini(&item.resources);
    static const char *const bad[] = {"../x", "/x", "a/../b", "a//b", "", ".", "a/", "a\nb"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        files[1].path = bad[i];
        CHECK_EQ(exp_store_unpack(p.dir, &files[1], 1, &err), EBB_EINPUT);
    }
    end(&p);
}

TEST(check__stores_and_reads_back)
{
    struct place p;
    struct ebb_error err;
    begin(&p);
    CHECK_OK(exp_store_check(p.store, NULL, NULL, &err), &err);
    shell(&p, "test -z \"$(ls -A c)\"", 0);
    end(&p);
}

TEST_MAIN()
