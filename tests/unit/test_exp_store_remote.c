/* What remote stores are made of, without a server: XML answers, journals, profile files, locations
 * that hold no secrets. tests/store has the servers. */
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/rng.h"
#include "base/thread.h"
#include "exp/store/aws.h"
#include "exp/store/http.h"
#include "exp/store/journal.h"
#include "exp/store/sigv4.h"
#include "exp/store/store.h"
#include "exp/store/xml.h"

static const char uuid[] = "0f0e0d0c-0b0a-4908-8706-050403020100";

static struct exp_xml xml(const char *text)
{
    return (struct exp_xml){text, text + strlen(text)};
}

TEST(xml__gives_the_text_of_an_element)
{
    char buf[32];
    struct exp_xml x =
        xml("<?xml version='1.0'?><Error a='1'><Codex>no</Codex><Code>Slow&amp;"
            "Down</Code><Message >a &lt;b&gt; &#x41;&#66;</Message><Empty/></Error>");
    CHECK(exp_xml_text(x, "Code", buf, sizeof buf));
    CHECK_STR(buf, "Slow&Down");
    CHECK(exp_xml_text(x, "Message", buf, sizeof buf));
    CHECK_STR(buf, "a <b> AB");
    CHECK(exp_xml_text(x, "Empty", buf, sizeof buf));
    CHECK_STR(buf, "");
    CHECK(!exp_xml_text(x, "Region", buf, sizeof buf));
    CHECK(exp_xml_text(x, "Code", buf, 5)); /* cut */
    CHECK_STR(buf, "Slow");
}

TEST(xml__goes_from_element_to_element)
{
    char buf[8];
    struct exp_xml x = xml("<L><E><K>1</K></E><E></E><E><K>3</K></E></L>"), one;
    CHECK(exp_xml_next(&x, "E", &one) && exp_xml_text(one, "K", buf, sizeof buf));
    CHECK_STR(buf, "1");
    CHECK(exp_xml_next(&x, "E", &one) && !exp_xml_text(one, "K", buf, sizeof buf));
    CHECK(exp_xml_next(&x, "E", &one) && exp_xml_text(one, "K", buf, sizeof buf));
    CHECK_STR(buf, "3");
    CHECK(!exp_xml_next(&x, "E", &one));
}

TEST(xml__that_ends_early_has_nothing)
{
    char buf[8];
    static const char *const texts[] = {
        "", "<", "<Code", "<Code>", "<Code>a", "<Code>a</Cod", "<Code>a</Code", "&#", "<Code/"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        CHECK(!exp_xml_text(xml(texts[i]), "Code", buf, sizeof buf));
}

/* ---- journals ---- */

static void fill(const char *path)
{
    struct exp_journal *j = NULL;
    struct ebb_error err;
    CHECK_OK(exp_journal_open(&j, path, "s3://b/u", &err), &err);
    CHECK_OK(exp_journal_done(j, "a b", &err), &err);
    CHECK_OK(exp_journal_begin(j, "w", "id \"1\"", &err), &err);
    CHECK_OK(exp_journal_part_done(j, "w", 2, "\"e2\"", &err), &err);
    CHECK_OK(exp_journal_part_done(j, "w", 0, "\"e0\"", &err), &err);
    exp_journal_close(j);
}

static void check_filled(const char *path, bool has_last)
{
    struct exp_journal *j = NULL;
    struct ebb_error err;
    char id[EXP_UPLOAD_ID], etag[EXP_ETAG];
    CHECK_OK(exp_journal_open(&j, path, "s3://b/u", &err), &err);
    CHECK(exp_journal_is_done(j, "a b") && !exp_journal_is_done(j, "w"));
    CHECK(exp_journal_upload(j, "w", id) && strcmp(id, "id \"1\"") == 0);
    CHECK(exp_journal_part(j, "w", 2, etag) && strcmp(etag, "\"e2\"") == 0);
    CHECK(!exp_journal_part(j, "w", 1, etag) && !exp_journal_part(j, "w", 9, etag));
    CHECK_EQ(exp_journal_part(j, "w", 0, etag), has_last);
    exp_journal_close(j);
}

TEST(journal__is_read_again_as_far_as_it_is_whole)
{
    char path[] = "/tmp/ebb-journal-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    fill(path);
    check_filled(path, true);
    off_t end = lseek(fd, 0, SEEK_END);
    CHECK_EQ(ftruncate(fd, end - 3), 0); /* torn by a crash */
    check_filled(path, false);
    check_filled(path, false); /* the torn line is gone for good */
    close(fd);
    unlink(path);
}

TEST(journal__of_another_store_is_thrown_away)
{
    char path[] = "/tmp/ebb-journal-XXXXXX";
    struct exp_journal *j = NULL;
    struct ebb_error err;
    close(mkstemp(path));
    fill(path);
    CHECK_OK(exp_journal_open(&j, path, "s3://other/u", &err), &err);
    CHECK(!exp_journal_is_done(j, "a b"));
    exp_journal_close(j);
    unlink(path);
}

TEST(journal__forgets_parts_of_an_upload_that_began_again)
{
    char path[] = "/tmp/ebb-journal-XXXXXX", etag[EXP_ETAG], id[EXP_UPLOAD_ID];
    struct exp_journal *j = NULL;
    struct ebb_error err;
    close(mkstemp(path));
    fill(path);
    for (int again = 0; again < 2; again++) {
        CHECK_OK(exp_journal_open(&j, path, "s3://b/u", &err), &err);
        if (again == 0)
            CHECK_OK(exp_journal_begin(j, "w", "", &err), &err);
        CHECK(!exp_journal_upload(j, "w", id) && !exp_journal_part(j, "w", 2, etag));
        exp_journal_close(j);
    }
    unlink(path);
}

/* ---- tries ---- */

TEST(rest__is_for_failures_that_may_pass)
{
    struct exp_http_answer answer = {.status = 403};
    struct exp_store_watch watch = {.tries = 2};
    CHECK(!exp_http_rest(NULL, 1, &answer));
    answer.status = 503;
    CHECK(exp_http_rest(&watch, 1, &answer));
    CHECK(!exp_http_rest(&watch, 2, &answer));
    CHECK(!exp_http_rest(NULL, 5, &answer));
    answer.status = 200; /* and broke off */
    CHECK(exp_http_rest(&watch, 1, &answer));
    atomic_store(&watch.is_unwanted, true);
    CHECK(!exp_http_rest(&watch, 1, &answer));
}

TEST(rest__is_as_long_as_the_server_asks_for)
{
    struct exp_http_answer answer;
    struct timespec begin, end;
    exp_http_answer_init(&answer);
    answer.status = 503;
    ebb_str_add(&answer.head, "retry-after: Sun, 06 Nov 1994 08:49:37 GMT\n"); /* now */
    clock_gettime(CLOCK_MONOTONIC, &begin);
    CHECK(exp_http_rest(NULL, 4, &answer)); /* by itself it would be 2 s at least */
    clock_gettime(CLOCK_MONOTONIC, &end);
    CHECK(end.tv_sec - begin.tv_sec < 2);
    exp_http_answer_fini(&answer);
}

/* ---- keys ---- */

TEST(profile__is_found_by_name)
{
    static const char text[] = "[default]\naws_access_key_id = A\naws_secret_access_key=B\n"
                               "# comment\n[ other ]\r\naws_access_key_id=C\r\n"
                               "aws_secret_access_key = D=E\r\naws_session_token = T";
    struct exp_aws_keys keys;
    CHECK(exp_aws_read_profile(text, sizeof text - 1, "default", &keys));
    CHECK_STR(keys.access, "A");
    CHECK_STR(keys.token, "");
    CHECK(exp_aws_read_profile(text, sizeof text - 1, "other", &keys));
    CHECK_STR(keys.secret, "D=E");
    CHECK_STR(keys.token, "T");
    CHECK(!exp_aws_read_profile(text, sizeof text - 1, "third", &keys));
    CHECK(!exp_aws_read_profile(text, 30, "default", &keys)); /* one key is none */
}

TEST(location__names_the_experiment_and_no_key)
{
    struct exp_storage s = {.kind = EXP_STORAGE_S3,
                            .bucket = "b",
                            .prefix = "/a/b/",
                            .access_key = "AKIA",
                            .secret_key = "hidden",
                            .endpoint_url = "http://h"};
    struct exp_store *store = NULL, *again = NULL;
    struct ebb_str text = {0}, path = {0};
    struct ebb_error err;
    CHECK_OK(exp_store_open(&s, 7, NULL, &store, &err), &err);
    CHECK(exp_store_is_remote(store));
    exp_store_location(store, &text);
    CHECK(strstr(ebb_str_c(&text), "hidden") == NULL && strstr(ebb_str_c(&text), "AKIA") == NULL);
    CHECK_EQ(exp_store_location_owner(ebb_str_c(&text)), 7);
    CHECK(exp_store_location_is_remote(ebb_str_c(&text)));
    CHECK_OK(exp_store_open_location(ebb_str_c(&text), NULL, NULL, &again, &err), &err);
    CHECK(exp_store_is_same(again, &s));
    exp_store_path(again, "u", &path);
    CHECK_STR(ebb_str_c(&path), "s3://b/a/b/u");
    CHECK_EQ(
        exp_store_remove(again, "0f0e0d0c-0b0a-4908-8706-050403020100", NULL, NULL, NULL, &err),
        EBB_EUNSUPPORTED); /* named, not reached */
    exp_store_close(store);
    exp_store_close(again);
    ebb_str_fini(&text);
    ebb_str_fini(&path);
}

TEST(large_files__go_in_at_most_ten_thousand_parts)
{
    int64_t (*parts)(int64_t) = exp_store_s3.remote->part_bytes;
    CHECK_EQ(parts(0), 0);
    CHECK_EQ(parts((int64_t)8 << 20), 0);
    CHECK_EQ(parts(((int64_t)8 << 20) + 1), (int64_t)8 << 20);
    int64_t most = (int64_t)5 << 40; /* the largest object there may be */
    CHECK(parts(most) % (1 << 20) == 0 && (most + parts(most) - 1) / parts(most) <= 10000);
}

/* Side by side or alone, the last one shorter, parts in between sent before: each is its own sums.
 * SHA-256 only where the connection protects nothing. */
static void check_sums(const char *endpoint, bool has_sha256)
{
    enum { BYTES = (64 << 20) + 12345 };
    static const size_t wants[][8] = {{0, 1, 2, 3, 4, 5, 6, 7},
                                      {1, 2, 3, 4, 5, 6, 7, 8},
                                      {0, 1, 3, 8},
                                      {0, 2, 8},
                                      {1, 8},
                                      {8},
                                      {2}};
    static const size_t counts[] = {8, 8, 4, 3, 2, 1, 1};
    struct exp_storage s = {.kind = EXP_STORAGE_S3, .bucket = "b", .endpoint_url = endpoint};
    struct ebb_error err;
    struct exp_remote r = {0};
    struct exp_store *store = NULL;
    uint8_t *bytes = malloc(BYTES), md5[16];
    uint64_t state = 3;
    FILE *file = tmpfile();
    CHECK(bytes != NULL && file != NULL);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i % 8 == 0 ? ebb_splitmix64(&state) : bytes[i - 1] + i);
    CHECK_EQ(fwrite(bytes, 1, BYTES, file), BYTES);
    CHECK_EQ(fflush(file), 0);
    CHECK_OK(exp_store_open(&s, 0, NULL, &store, &err), &err);
    r.store = store;
    struct exp_remote_file f = {.uuid = "u", .path = "p", .fd = fileno(file), .bytes = BYTES};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        struct exp_sums sums[8];
        memset(sums, 'x', sizeof sums);
        CHECK_OK(exp_store_s3.remote->sum_parts(&r, &f, wants[k], counts[k], sums, &err), &err);
        for (size_t i = 0; i < counts[k]; i++) {
            size_t at = wants[k][i] << 23, n = BYTES - at < 1 << 23 ? BYTES - at : 1 << 23;
            struct ebb_md5 one;
            struct ebb_sha256 sha;
            struct ebb_str base64 = {0};
            char hex[33], sha256[EBB_SHA256_TEXT];
            ebb_md5_init(&one);
            ebb_md5_add(&one, bytes + at, n);
            CHECK_OK(ebb_md5_bytes(&one, md5, &err), &err);
            ebb_sha256_init(&sha);
            ebb_sha256_add(&sha, bytes + at, n);
            CHECK_OK(ebb_sha256_text(&sha, sha256, &err), &err);
            ebb_hex(md5, 16, hex);
            ebb_base64_add(&base64, md5, 16);
            CHECK_STR(sums[i].md5_hex, hex);
            CHECK_STR(sums[i].md5, ebb_str_c(&base64));
            CHECK_STR(sums[i].sha256, has_sha256 ? sha256 : "");
            ebb_str_fini(&base64);
        }
    }
    CHECK_EQ(ftruncate(fileno(file), BYTES - 1), 0);
    struct exp_sums sums[8];
    CHECK_EQ(exp_store_s3.remote->sum_parts(&r, &f, wants[1], 8, sums, &err), EBB_EIO);
    fclose(file);
    exp_store_close(store);
    free(bytes);
}

TEST(sums_of_parts__are_those_of_their_bytes)
{
    check_sums("http://x", true);
}

TEST(sums_of_parts__under_https_have_no_sha256)
{
    check_sums("https://x", false);
}

/* ---- uploads ---- */

/* A sealed checkpoint with a file of so many bytes, in a directory of its own. */
static void seal(char dir[64], int64_t bytes, char *copy, size_t size)
{
    struct ebb_error err;
    struct exp_store *store = NULL;
    struct exp_store_item item = {.uuid = uuid, .metadata = "{}"};
    char text[300];
    snprintf(dir, 64, "/tmp/ebb-upload-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(text, sizeof text, "cd %s && mkdir .%s.tmp && seq 9999999 | head -c %lld > .%s.tmp/w",
             dir, uuid, (long long)bytes, uuid);
    CHECK_EQ(system(text), 0);
    snprintf(text, sizeof text, "{\"type\":\"shared_fs\",\"directory\":\"%s\"}", dir);
    CHECK_OK(exp_store_open_location(text, NULL, NULL, &store, &err), &err);
    exp_store_publish(store, &item, 1);
    CHECK_OK(item.status, &item.err);
    ebb_str_fini(&item.resources);
    exp_store_close(store);
    snprintf(copy, size, "%s/%s", dir, uuid);
}

/* EBB_ECORRUPT ends an upload for good: memory that is out says nothing about the copy. */
TEST(upload__that_runs_out_of_memory_can_be_tried_again)
{
    struct exp_storage s = {.kind = EXP_STORAGE_GCS, .bucket = "b"};
    struct ebb_error err;
    struct exp_store *store = NULL;
    struct exp_store_net *net = NULL;
    struct exp_store_watch watch = {.tries = 1};
    char dir[64], copy[128], journal[160];
    uint64_t n = 1, before = 0;
    seal(dir, 3, copy, sizeof copy);
    snprintf(journal, sizeof journal, "%s.journal", copy);
    setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1", 1); /* nobody there */
    CHECK_OK(exp_store_net_create(&net, &err), &err);
    CHECK_OK(exp_store_open(&s, 0, net, &store, &err), &err);
    CHECK_EQ(exp_store_upload(store, uuid, copy, journal, &watch, &err), EBB_EIO);
    for (bool is_over = false; !is_over; n++) {
        before = ebb_heap_calls();
        ebb_heap_fail_at(n);
        enum ebb_status status = exp_store_upload(store, uuid, copy, journal, &watch, &err);
        ebb_heap_fail_at(0);
        if (status != EBB_ENOMEM && status != EBB_EIO)
            fail_msg("allocation %llu: %s", (unsigned long long)n, err.message);
        is_over = ebb_heap_calls() - before < n;
        CHECK(n < 1000);
    }
    CHECK(n > 20);
    exp_store_close(store);
    exp_store_net_destroy(net);
    unsetenv("STORAGE_EMULATOR_HOST");
    CHECK_OK(exp_store_remove_tree(dir, &err), &err);
}

/* ---- fetches ---- */

/* A store that gives what lies in a directory of this machine. */
static struct {
    char dir[64];
    uint64_t
        fail_at; /* allocations are counted from each manifest that has arrived; 0 = not at all */
} local;

static void local_address(const struct exp_store *store, const char *name, struct ebb_str *out)
{
    (void)store;
    ebb_str_printf(out, "local/%s", name);
}

static enum ebb_status local_get(struct exp_remote *r, const char *name, const char *path,
                                 int64_t offset, int64_t bytes, exp_http_sink sink, void *context,
                                 struct ebb_error *err)
{
    char text[300], data[4096];
    (void)r;
    CHECK(offset == 0 && bytes < 0);
    snprintf(text, sizeof text, "%s/%s/%s", local.dir, name, path);
    int fd = open(text, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, data, sizeof data);
    CHECK(n >= 0 && n < (ssize_t)sizeof data);
    close(fd);
    bool is_taken = sink(context, data, (size_t)n);
    if (strcmp(path, "manifest.json") == 0 && local.fail_at > 0)
        ebb_heap_fail_at(local.fail_at);
    return is_taken ? EBB_OK : ebb_fail(err, EBB_EIO, "not taken");
}

static const struct exp_remote_driver local_remote = {.address = local_address, .get = local_get};
static const struct exp_store_driver local_driver = {.name = "local", .remote = &local_remote};

struct local_fetch {
    struct exp_store store;
    char to[80];
    uint64_t first; /* of the whole fetch, fails, too */
};

static enum ebb_status fetch_once(struct local_fetch *f)
{
    struct ebb_error err;
    uint64_t before = ebb_heap_live();
    ebb_heap_fail_at(f->first);
    enum ebb_status status = exp_store_fetch(&f->store, uuid, "{\"empty/\": 0}", f->to, NULL, &err);
    ebb_heap_fail_at(0);
    CHECK_EQ(ebb_heap_live(), before);
    CHECK_OK(exp_store_remove_tree(f->to, &err), &err);
    return status;
}

/* EBB_ECORRUPT is the end of a checkpoint in its store: memory that is out says nothing about it. */
TEST(fetch__that_runs_out_of_memory_can_be_tried_again)
{
    struct local_fetch f = {.store = {.driver = &local_driver}};
    struct exp_http *http = NULL;
    struct ebb_error err;
    char copy[128];
    seal(local.dir, 3, copy, sizeof copy);
    snprintf(f.to, sizeof f.to, "%s/to", local.dir);
    CHECK_OK(exp_store_net_create(&f.store.net, &err), &err);
    CHECK_OK(exp_net_http(f.store.net, &http, &err), &err); /* it stays */
    for (int way = 0; way < 2; way++) {
        enum ebb_status status = EBB_ENOMEM;
        uint64_t n = 1;
        for (; status != EBB_OK; n++) {
            f.first = way == 1 ? n : 0;
            local.fail_at = way == 0 ? n : 0; /* each time a manifest arrives */
            status = fetch_once(&f);
            if (status != EBB_OK && status != EBB_ENOMEM && status != EBB_EIO)
                fail_msg("way %d, allocation %llu: %s", way, (unsigned long long)n,
                         ebb_status_text(status));
            CHECK(n < 1000);
        }
        CHECK(n > 5);
    }
    local.fail_at = 0;
    exp_store_net_destroy(f.store.net);
    CHECK_OK(exp_store_remove_tree(local.dir, &err), &err);
}

/* In the store a file has more bytes than were put there. */
TEST(fetch__of_a_file_that_is_longer_is_damage)
{
    struct local_fetch f = {.store = {.driver = &local_driver}};
    struct ebb_error err;
    char copy[128], longer[200];
    seal(local.dir, 3, copy, sizeof copy);
    snprintf(f.to, sizeof f.to, "%s/to", local.dir);
    snprintf(longer, sizeof longer, "%s/metadata.json", copy);
    FILE *file = fopen(longer, "a");
    CHECK(file != NULL && fputs("more", file) >= 0 && fclose(file) == 0);
    CHECK_OK(exp_store_net_create(&f.store.net, &err), &err);
    CHECK_EQ(exp_store_fetch(&f.store, uuid, NULL, f.to, NULL, &err), EBB_ECORRUPT);
    CHECK(strstr(err.message, "damaged: metadata.json is longer than manifest.json says") != NULL);
    exp_store_net_destroy(f.store.net);
    CHECK_OK(exp_store_remove_tree(local.dir, &err), &err);
}

static size_t open_files(void)
{
    size_t count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* No room for the manifest, which is larger than the files: tried again until there is. */
TEST(fetch__that_has_no_room_keeps_no_file_open)
{
    struct local_fetch f = {.store = {.driver = &local_driver}};
    struct exp_http *http = NULL;
    struct ebb_error err;
    struct rlimit was, small;
    char copy[128];
    seal(local.dir, 3, copy, sizeof copy);
    snprintf(f.to, sizeof f.to, "%s/to", local.dir);
    CHECK_OK(exp_store_net_create(&f.store.net, &err), &err);
    CHECK_OK(exp_net_http(f.store.net, &http, &err), &err); /* it stays */
    size_t before = open_files();
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = (struct rlimit){.rlim_cur = 100, .rlim_max = was.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum ebb_status status = exp_store_fetch(&f.store, uuid, NULL, f.to, NULL, &err);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, handler);
    CHECK_EQ(status, EBB_EIO);
    CHECK(strstr(err.message, "manifest.json") != NULL);
    CHECK_EQ(open_files(), before);
    exp_store_net_destroy(f.store.net);
    CHECK_OK(exp_store_remove_tree(local.dir, &err), &err);
}

/* ---- uploads in parts ---- */

enum { PART = 8 << 20, LARGE = 4 * PART + 1000 }; /* as s3 has it: the last one shorter */

/* A store that takes everything and keeps the sums of parts. */
static struct {
    int forgets;     /* so many uploads in parts before they are finished */
    int begins;      /* of uploads in parts */
    atomic_int sums; /* of parts that came with their own */
} taker;

static enum ebb_status take(struct exp_remote *r, const struct exp_remote_file *f,
                            struct ebb_error *err)
{
    (void)r, (void)f, (void)err;
    return EBB_OK;
}

static enum ebb_status take_begin(struct exp_remote *r, const struct exp_remote_file *f,
                                  char id[EXP_UPLOAD_ID], struct ebb_error *err)
{
    (void)r, (void)f, (void)err;
    taker.begins++;
    snprintf(id, EXP_UPLOAD_ID, "id");
    return EBB_OK;
}

static enum ebb_status take_sums(struct exp_remote *r, const struct exp_remote_file *f,
                                 const size_t *parts, size_t count, struct exp_sums *sums,
                                 struct ebb_error *err)
{
    return exp_store_s3.remote->sum_parts(r, f, parts, count, sums, err);
}

static enum ebb_status take_part(struct exp_remote *r, const struct exp_remote_file *f,
                                 const char *id, size_t part, const struct exp_sums *sums,
                                 char etag[EXP_ETAG], struct ebb_error *err)
{
    struct exp_sums own = {0};
    struct ebb_error why;
    (void)id, (void)err;
    if (exp_store_s3.remote->sum_parts(r, f, &part, 1, &own, &why) == EBB_OK)
        atomic_fetch_add(&taker.sums, strcmp(own.md5_hex, sums->md5_hex) == 0);
    snprintf(etag, EXP_ETAG, "\"%s\"", sums->md5_hex);
    return EBB_OK;
}

static enum ebb_status take_finish(struct exp_remote *r, const struct exp_remote_file *f,
                                   const char *id, size_t parts, struct ebb_error *err)
{
    (void)r, (void)f, (void)id;
    CHECK_EQ(parts, 5);
    return taker.forgets-- > 0 ? ebb_fail(err, EBB_ECORRUPT, "NoSuchUpload") : EBB_OK;
}

static int64_t take_part_bytes(int64_t bytes)
{
    return exp_store_s3.remote->part_bytes(bytes);
}

static const struct exp_remote_driver taking = {.address = local_address,
                                                .has_markers = true,
                                                .put = take,
                                                .part_bytes = take_part_bytes,
                                                .begin_parts = take_begin,
                                                .sum_parts = take_sums,
                                                .put_part = take_part,
                                                .finish_parts = take_finish};
static const struct exp_store_driver taking_driver = {.name = "taking", .remote = &taking};

struct parts {
    struct exp_store store;
    struct exp_store_watch watch;
    char dir[64], copy[128], journal[160];
};

/* A sealed checkpoint with one large file. */
static void begin_parts(struct parts *p)
{
    struct ebb_error err;
    struct exp_http *http = NULL;
    *p = (struct parts){.store = {.driver = &taking_driver, .endpoint = "http://x"}};
    seal(p->dir, LARGE, p->copy, sizeof p->copy);
    snprintf(p->journal, sizeof p->journal, "%s.journal", p->copy);
    CHECK_OK(exp_store_net_create(&p->store.net, &err), &err);
    CHECK_OK(exp_net_http(p->store.net, &http, &err), &err);
    taker.forgets = 0;
    atomic_store(&taker.sums, 0);
}

static enum ebb_status upload_parts(struct parts *p, struct ebb_error *err)
{
    (void)unlink(p->journal);
    return exp_store_upload(&p->store, uuid, p->copy, p->journal, &p->watch, err);
}

static void end_parts(struct parts *p)
{
    struct ebb_error err;
    exp_store_net_destroy(p->store.net);
    CHECK_OK(exp_store_remove_tree(p->dir, &err), &err);
}

TEST(upload__that_begins_again_counts_what_is_there)
{
    struct parts p;
    struct ebb_error err;
    begin_parts(&p);
    CHECK_OK(upload_parts(&p, &err), &err);
    long long bytes = atomic_load(&p.watch.bytes);
    CHECK(bytes > LARGE && bytes < LARGE + 4096);
    taker.forgets = 1;
    CHECK_OK(upload_parts(&p, &err), &err);
    CHECK_EQ(atomic_load(&p.watch.bytes), bytes);
    CHECK_EQ(atomic_load(&taker.sums), 15);
    taker.forgets = 2; /* then it is over for now */
    CHECK_EQ(upload_parts(&p, &err), EBB_EIO);
    end_parts(&p);
}

/* Memory that is out says nothing about the copy, in parts neither. */
TEST(upload__in_parts_that_runs_out_of_memory_can_be_tried_again)
{
    struct parts p;
    struct ebb_error err;
    enum ebb_status status = EBB_ENOMEM;
    uint64_t n = 1, before, calls = 0;
    begin_parts(&p);
    CHECK_OK(upload_parts(&p, &err), &err);
    for (bool is_over = false; !is_over; n++) {
        before = ebb_heap_live();
        calls = ebb_heap_calls();
        atomic_store(&taker.sums, 0);
        taker.begins = 0;
        ebb_heap_fail_at(n);
        status = upload_parts(&p, &err);
        ebb_heap_fail_at(0);
        is_over = ebb_heap_calls() - calls < n;
        CHECK_EQ(ebb_heap_live(), before);
        if (status != EBB_OK && status != EBB_ENOMEM)
            fail_msg("allocation %llu: %s", (unsigned long long)n, err.message);
        CHECK(taker.begins <= 1 && n < 1000); /* nor does the store forget anything */
    }
    CHECK_OK(status, &err);
    CHECK_EQ(atomic_load(&taker.sums), 5);
    CHECK(n > 30);
    end_parts(&p);
}

static void *nothing(void *context)
{
    return context;
}

/* A store that numbers parts instead of summing them: files may be of any size, with nothing in them. */
static struct {
    int64_t part_bytes;
    atomic_long summed, taken, most; /* most: that were summed and not taken */
} counter;

static int64_t count_part_bytes(int64_t bytes)
{
    return bytes > 100000 ? counter.part_bytes : 0;
}

static enum ebb_status count_sums(struct exp_remote *r, const struct exp_remote_file *f,
                                  const size_t *parts, size_t count, struct exp_sums *sums,
                                  struct ebb_error *err)
{
    (void)r, (void)f, (void)err;
    long ahead =
        atomic_fetch_add(&counter.summed, (long)count) + (long)count - atomic_load(&counter.taken);
    if (ahead > atomic_load(&counter.most))
        atomic_store(&counter.most, ahead);
    for (size_t i = 0; i < count; i++)
        snprintf(sums[i].md5_hex, sizeof sums[i].md5_hex, "%zu", parts[i]);
    return EBB_OK;
}

static enum ebb_status count_part(struct exp_remote *r, const struct exp_remote_file *f,
                                  const char *id, size_t part, const struct exp_sums *sums,
                                  char etag[EXP_ETAG], struct ebb_error *err)
{
    char text[33];
    (void)r, (void)f, (void)id;
    snprintf(text, sizeof text, "%zu", part);
    snprintf(etag, EXP_ETAG, "\"%zu\"", part);
    usleep(part % 16 == 3 ? 5000 : 100); /* some are overtaken by all that wait */
    atomic_fetch_add(&counter.taken, 1);
    return strcmp(text, sums->md5_hex) == 0
               ? EBB_OK
               : ebb_fail(err, EBB_EINPUT, "part %zu has the sums of %s", part, sums->md5_hex);
}

static enum ebb_status count_finish(struct exp_remote *r, const struct exp_remote_file *f,
                                    const char *id, size_t parts, struct ebb_error *err)
{
    (void)r, (void)f, (void)id, (void)err;
    CHECK_EQ(parts, 80);
    return EBB_OK;
}

static const struct exp_remote_driver counting = {.address = local_address,
                                                  .has_markers = true,
                                                  .put = take,
                                                  .part_bytes = count_part_bytes,
                                                  .begin_parts = take_begin,
                                                  .sum_parts = count_sums,
                                                  .put_part = count_part,
                                                  .finish_parts = count_finish};
static const struct exp_store_driver counting_driver = {.name = "counting", .remote = &counting};

/* What the hasher has read is sent while it is still in memory: of large parts few are ahead. Four
 * more are on their way. */
TEST(sums__are_of_their_parts_and_not_far_ahead)
{
    static const int64_t sizes[] = {20000, (int64_t)64 << 20, (int64_t)512 << 20};
    static const long most[] = {16, 4, 2};
    for (size_t i = 0; i < 3; i++) {
        struct parts p;
        struct ebb_error err;
        char text[500];
        begin_parts(&p);
        p.store.driver = &counting_driver;
        counter.part_bytes = sizes[i];
        atomic_store(&counter.summed, 0);
        atomic_store(&counter.taken, 0);
        atomic_store(&counter.most, 0);
        snprintf(text, sizeof text,
                 "cd %s && chmod u+w . w manifest.json && truncate -s %lld w && "
                 "sed -i 's/\\b%d\\b/%lld/; s/\"xxh128\"\\([^,]*\\)$/\"older\"\\1/' manifest.json",
                 p.copy, (long long)sizes[i] * 80 - 1, LARGE, (long long)sizes[i] * 80 - 1);
        CHECK_EQ(system(text), 0);
        CHECK_OK(upload_parts(&p, &err), &err);
        CHECK_EQ(atomic_load(&counter.taken), 80);
        CHECK(atomic_load(&counter.most) <= most[i] + 4);
        end_parts(&p);
    }
}

/* No thread can have a stack that large: as when a machine has no room for more threads. */
TEST(upload__in_parts_goes_without_threads)
{
    struct parts p;
    struct ebb_error err;
    pthread_attr_t usual, vast;
    pthread_t thread;
    begin_parts(&p);
    CHECK_EQ(pthread_getattr_default_np(&usual), 0);
    CHECK_EQ(pthread_getattr_default_np(&vast), 0);
    CHECK_EQ(pthread_attr_setstacksize(&vast, (size_t)1 << 60), 0);
    CHECK_EQ(pthread_setattr_default_np(&vast), 0);
    CHECK(ebb_thread_start(&thread, nothing, NULL) != 0);
    enum ebb_status status = upload_parts(&p, &err);
    CHECK_EQ(pthread_setattr_default_np(&usual), 0);
    CHECK_OK(status, &err);
    CHECK_EQ(atomic_load(&taker.sums), 5);
    pthread_attr_destroy(&usual);
    pthread_attr_destroy(&vast);
    end_parts(&p);
}

TEST(names__are_as_long_as_keys_with_prefix_and_uuid_may_be)
{
    struct exp_storage s3 = {.kind = EXP_STORAGE_S3, .bucket = "b", .prefix = "/ab/c"};
    struct exp_storage hdfs = {.kind = EXP_STORAGE_HDFS, .hdfs_url = "u", .hdfs_path = "/ab/c"};
    struct exp_store *store = NULL;
    struct ebb_error err;
    CHECK_OK(exp_store_open(&s3, 0, NULL, &store, &err), &err);
    CHECK_EQ(exp_store_names(store).max, 1024 - 5 - 37);
    CHECK(exp_store_names(store).without == NULL);
    exp_store_close(store);
    CHECK_OK(exp_store_open(&hdfs, 0, NULL, &store, &err), &err);
    CHECK_EQ(exp_store_names(store).max, 1024);
    CHECK_STR(exp_store_names(store).without, ":");
    exp_store_close(store);
}

TEST(long_names__leave_room_for_the_cause_in_messages)
{
    char name[1200], text[EXP_SHORT];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    memcpy(name, "begin", 5);
    memcpy(name + sizeof name - 4, "end", 3);
    CHECK_STR(exp_http_short("a/b", text), "a/b");
    const char *cut = exp_http_short(name, text);
    CHECK(strlen(cut) < 300 && strncmp(cut, "begin", 5) == 0 && strstr(cut, "x...x") != NULL &&
          strcmp(cut + strlen(cut) - 3, "end") == 0);
}

TEST(answers_that_are_none_of_a_stores__are_told_by_their_first_words)
{
    static const char page[] = "\n <html><body>Blocked by your network, ask for a way around "
                               "it at the usual place, in writing, before noon</body></html>\nmore";
    struct exp_http_answer answer;
    struct ebb_error err;
    char exception[80];
    exp_http_answer_init(&answer);
    answer.status = 403;
    exp_hdfs_explain(&answer, exception, &err);
    CHECK_STR(err.message, "403: ");
    ebb_str_add(&answer.body, page);
    exp_hdfs_explain(&answer, exception, &err);
    CHECK(strncmp(err.message, "403: <html><body>Blocked by", 27) == 0);
    CHECK(strlen(err.message) < 120);
    exp_gcs_explain(&answer, &err);
    CHECK(strncmp(err.message, "403: <html><body>Blocked by", 27) == 0);
    ebb_str_clear(&answer.body);
    ebb_str_add(&answer.body, "no rights\r\nat all");
    exp_hdfs_explain(&answer, exception, &err);
    CHECK_STR(err.message, "403: no rights");
    exp_http_answer_fini(&answer);
}

TEST(words_of_a_server__are_text_in_messages)
{
    struct ebb_error err;
    ebb_fail(&err, EBB_EIO,
             "403 a\033[2Jb\r\nc\177 \xff\xc3\xbc \xc2\x9b"
             "1m \xe2\x82");
    exp_http_clean(&err);
    CHECK_STR(err.message, "403 a?[2Jb??c? ?\xc3\xbc ?"
                           "?1m ?"
                           "?");
    exp_http_clean(NULL);
}

TEST_MAIN()
