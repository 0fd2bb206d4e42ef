/* A page of a listing is whole or FAILED; keys come out as they are in the
 * bucket, and in its order.
 */
#define _GNU_SOURCE

#include "check.h"

#include "s3_xml.h"

#define PAGE_SIZE (64 * 1024)

static struct s3_page page;
static struct reason reason;

/* Parses a copy of TEXT that ends where its bytes end, so that a read beyond is
 * seen. */
static enum outcome parse_bytes(const char *prefix, const char *text,
				size_t len)
{
	char *copy = malloc(len ? len : 1);
	enum outcome outcome;

	CHECK(copy != NULL);
	memcpy(copy, text, len);
	s3_page_release(&page);
	reason.text[0] = '\0';
	outcome = s3_page_parse(&page, prefix, copy, len, &reason);
	free(copy);
	if (outcome != OUTCOME_OK)
		CHECK(reason.text[0] != '\0');
	return outcome;
}

static enum outcome parse(const char *prefix, const char *text)
{
	return parse_bytes(prefix, text, strlen(text));
}

/* A document around CONTENT: all of it is there, unless CONTENT says other. */
static enum outcome parse_around(const char *prefix, const char *content)
{
	static char text[PAGE_SIZE];
	int len = snprintf(text, sizeof(text),
			   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
			   "<ListBucketResult xmlns=\"http://s3.amazonaws.com/"
			   "doc/2006-03-01/\">"
			   "<IsTruncated>false</IsTruncated>%s"
			   "</ListBucketResult>",
			   content);

	CHECK(len > 0 && (size_t)len < sizeof(text));
	return parse_bytes(prefix, text, (size_t)len);
}

/* One object with the key that is written KEY. */
static enum outcome parse_key(const char *prefix, const char *key)
{
	char content[8 * 1024];
	int len = snprintf(content, sizeof(content),
			   "<Contents><Key>%s</Key></Contents>", key);

	CHECK(len > 0 && (size_t)len < sizeof(content));
	return parse_around(prefix, content);
}

static void check_name(size_t i, const char *name, bool directory)
{
	CHECK(i < page.count);
	CHECK_STR(page.names[i].name, name);
	CHECK_EQ(page.names[i].directory, directory);
}

/* The key WRITTEN, below cells/, is the object NAME and nothing else. */
static void check_key(const char *written, const char *name)
{
	CHECK_EQ(parse_key("cells/", written), OUTCOME_OK);
	CHECK_EQ(page.count, 1);
	CHECK_EQ(page.foreign, 0);
	check_name(0, name, false);
}

/* WRITTEN is no key below cells/; it is counted, and the page stands. */
static void check_foreign(const char *written)
{
	char content[8 * 1024];

	snprintf(content, sizeof(content),
		 "<Contents><Key>cells/a</Key></Contents>"
		 "<Contents><Key>%s</Key></Contents>"
		 "<CommonPrefixes><Prefix>cells/b/</Prefix></CommonPrefixes>",
		 written);
	CHECK_EQ(parse_around("cells/", content), OUTCOME_OK);
	CHECK_EQ(page.foreign, 1);
	CHECK_EQ(page.count, 2);
	check_name(0, "a", false);
	check_name(1, "b", true);
}

/* As a store sends it, but for its length. */
static const char whole_page[] =
	"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
	"<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
	"<Name>fleet</Name><Prefix>cells/</Prefix><MaxKeys>1000</MaxKeys>"
	"<Delimiter>%2F</Delimiter><IsTruncated>true</IsTruncated>"
	"<NextContinuationToken>1ueGcx&amp;/=</NextContinuationToken>"
	"<KeyCount>4</KeyCount><EncodingType>url</EncodingType>"
	"<Contents><Key>cells/note</Key>"
	"<LastModified>2009-10-12T17:50:30.123Z</LastModified>"
	"<ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag>"
	"<Size>434234</Size><StorageClass>STANDARD</StorageClass>"
	"<Owner><ID>75aa57f0</ID><DisplayName>Key</DisplayName></Owner>"
	"</Contents>"
	"<CommonPrefixes><Prefix>cells/z%3Ab/</Prefix></CommonPrefixes>"
	"<CommonPrefixes><Prefix>cells/a%24b/</Prefix></CommonPrefixes>"
	"<Contents><Key>nodes/other</Key><Size>1</Size></Contents>"
	"</ListBucketResult>";

static void test_page(void)
{
	CHECK_EQ(parse("cells/", whole_page), OUTCOME_OK);
	CHECK_EQ(page.count, 3);
	CHECK_EQ(page.foreign, 1);
	check_name(0, "a$b", true);
	check_name(1, "note", false);
	check_name(2, "z:b", true);
	CHECK_EQ(page.names[1].size_bytes, 434234);
	CHECK_EQ(page.names[1].modified_ms, 1255369830123);
	CHECK_EQ(page.names[0].size_bytes, 0);
	CHECK_EQ(page.names[0].modified_ms, 0);
	CHECK_EQ(page.truncated, true);
	CHECK_STR(page.next, "1ueGcx&/=");
}

/* What one object says is not the next one's. */
static void test_fields_are_of_their_object(void)
{
	CHECK_EQ(parse_around(
			 "",
			 "<Contents><Key>a</Key><Size>5</Size><LastModified>"
			 "2009-10-12T17:50:30Z</LastModified></Contents>"
			 "<Contents><Key>b</Key><LastModified>yesterday"
			 "</LastModified><Owner><Size>9</Size></Owner>"
			 "</Contents><Contents><Size>6</Size></Contents>"
			 "<Contents><Size>18446744073709551615</Size>"
			 "<Key>c</Key></Contents>"),
		 OUTCOME_OK);
	CHECK_EQ(page.count, 3);
	CHECK_EQ(page.foreign, 1);
	CHECK_EQ(page.names[0].size_bytes, 5);
	CHECK_EQ(page.names[0].modified_ms, 1255369830000);
	CHECK_EQ(page.names[1].size_bytes, 0);
	CHECK_EQ(page.names[1].modified_ms, 0);
	CHECK(page.names[2].size_bytes == UINT64_MAX);
}

static void test_empty_page(void)
{
	CHECK_EQ(parse_around("cells/", ""), OUTCOME_OK);
	CHECK_EQ(page.count, 0);
	CHECK_EQ(page.foreign, 0);
	CHECK_EQ(page.truncated, false);
	CHECK_STR(page.next, "");
}

static void test_encoding(void)
{
	check_key("cells/plain", "plain");
	check_key("cells/a+b", "a b");
	check_key("cells/a%20b", "a b");
	check_key("cells/a%2Bb%3ac%25", "a+b:c%");
	check_key("cells%2Fx", "x");
	check_key("cells/%C3%A4\xc3\xa4", "\xc3\xa4\xc3\xa4");
	check_key("cells/%FF%80", "\xff\x80");
	check_key("cells/%01%0A%7F%1B", "\x01\n\x7f\x1b");
	check_key("cells/a&amp;b&lt;&#99;&#x64;", "a&b<cd");
	check_key("cells/<![CDATA[<&]]>", "<&");
	check_key("cells/..", "..");
	check_key("cells/", "");
	check_foreign("cells/%");
	check_foreign("cells/%4");
	check_foreign("cells/%4g");
	check_foreign("cells/%-1");
	check_foreign("cells/% 1");
}

static void test_nul_is_no_part_of_a_key(void)
{
	check_foreign("cells/a%00");
	check_foreign("cells/a%00b");
	check_foreign("%00");
}

static void test_below_another_prefix(void)
{
	check_foreign("nodes/a");
	check_foreign("cell/a");
	check_foreign("cells");
	check_foreign("");
	check_foreign("Cells/a");
	check_foreign("../cells/a");
	CHECK_EQ(parse_key("deep/down/cells/", "deep/down/cells/a"),
		 OUTCOME_OK);
	check_name(0, "a", false);
	CHECK_EQ(parse_key("deep/down/cells/", "cells/a"), OUTCOME_OK);
	CHECK_EQ(page.count, 0);
	CHECK_EQ(page.foreign, 1);
}

static void test_directories(void)
{
	CHECK_EQ(parse_around("cells/", "<CommonPrefixes><Prefix>cells//"
					"</Prefix></CommonPrefixes>"
					"<CommonPrefixes><Prefix>cells/../"
					"</Prefix><Prefix>cells/x/</Prefix>"
					"</CommonPrefixes>"
					"<CommonPrefixes></CommonPrefixes>"
					"<CommonPrefixes><Prefix>nodes/"
					"</Prefix></CommonPrefixes>"),
		 OUTCOME_OK);
	CHECK_EQ(page.foreign, 2);
	CHECK(page.count >= 1);
	check_name(0, "", true);
}

/* The page of CONTENT has the one NAME. */
static void check_stands(const char *content, const char *name, bool directory)
{
	CHECK_EQ(parse_around("cells/", content), OUTCOME_OK);
	CHECK_EQ(page.count, 1);
	check_name(0, name, directory);
}

static void check_ignored(const char *content, const char *key)
{
	char text[1024];

	CHECK_EQ(parse_around("cells/", content), OUTCOME_FAILED);
	snprintf(text, sizeof(text), "ignores the delimiter: it lists '%s'",
		 key);
	if (strstr(reason.text, text) == NULL)
		CHECK_FAIL("'%s' is not in '%s'", text, reason.text);
}

/* What should have been gathered is listed one by one: cells would be missing,
 * and "cells/a/own.json" must not pass for a key that is no name. */
static void test_delimiter_is_ignored(void)
{
	static const char *const keys[][2] = {
		{"cells/a/own.json", "cells/a/own.json"},
		{"cells%2Fa%2fown.json", "cells/a/own.json"},
		{"cells/a/", "cells/a/"},
		{"cells//x", "cells//x"},
		{"cells//", "cells//"},
		{"cells/%0A/x", "cells/?/x"},
	};
	char content[1024];

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		snprintf(content, sizeof(content),
			 "<CommonPrefixes><Prefix>cells/b/</Prefix>"
			 "</CommonPrefixes><Contents><Key>%s</Key></Contents>",
			 keys[i][0]);
		check_ignored(content, keys[i][1]);
	}
	check_ignored("<CommonPrefixes><Prefix>cells/a/b/</Prefix>"
		      "</CommonPrefixes>",
		      "cells/a/b/");
	check_ignored("<CommonPrefixes><Prefix>cells//b/</Prefix>"
		      "</CommonPrefixes>",
		      "cells//b/");

	/* keys that are no names are there all the same */
	check_stands("<CommonPrefixes><Prefix>cells//</Prefix>"
		     "</CommonPrefixes>",
		     "", true);
	check_stands("<Contents><Key>cells/</Key></Contents>", "", false);
	check_stands("<Contents><Key>cells/..</Key></Contents>", "..", false);
	check_stands("<CommonPrefixes><Prefix>cells/../</Prefix>"
		     "</CommonPrefixes>",
		     "..", true);
	check_foreign("nodes/a/b");
}

/* PREFIX and then COUNT times UNIT. */
static char *long_key(const char *prefix, const char *unit, size_t count)
{
	static char key[8 * 1024];
	size_t len = (size_t)snprintf(key, sizeof(key), "%s", prefix);

	for (size_t i = 0; i < count; i++)
		len += (size_t)snprintf(key + len, sizeof(key) - len, "%s",
					unit);
	CHECK(len < sizeof(key));
	return key;
}

static void test_long_keys(void)
{
	CHECK_EQ(parse_key("cells/", long_key("cells/", "n", 300)), OUTCOME_OK);
	CHECK_EQ(page.count, 1);
	CHECK_EQ(strlen(page.names[0].name), 300);
	CHECK_EQ(parse_key("cells/", long_key("cells/", "n", 1018)),
		 OUTCOME_OK);
	CHECK_EQ(strlen(page.names[0].name), 1018);
	/* the longest key in its longest form */
	CHECK_EQ(parse_key("", long_key("", "%6e", 1024)), OUTCOME_OK);
	CHECK_EQ(page.count, 1);
	CHECK_EQ(strlen(page.names[0].name), 1024);
	CHECK_EQ(strspn(page.names[0].name, "n"), 1024);
	check_foreign(long_key("cells/", "n", 1019));
	check_foreign(long_key("cells/", "%6e", 1019));
	/* dropped, not cut to what would be another key */
	check_foreign(long_key("cells/", "%6e", 1500));
	check_foreign(long_key("cells/", "&amp;", 1019));
	check_foreign(long_key("cells/x", "&#110;n", 1000));
	/* what is left of it would be a key */
	check_foreign(long_key("cells/a&amp;", "n", 4000));
}

static void test_truncated(void)
{
	static const char form[] =
		"<ListBucketResult><Contents><Key>a</Key></Contents>%s"
		"</ListBucketResult>";
	static const struct {
		const char *says;
		enum outcome outcome;
		const char *next;
	} cases[] = {
		{"<IsTruncated>true</IsTruncated>"
		 "<NextContinuationToken>t</NextContinuationToken>",
		 OUTCOME_OK, "t"},
		{"<NextContinuationToken> t+%20</NextContinuationToken>"
		 "<IsTruncated>true</IsTruncated>",
		 OUTCOME_OK, " t+%20"},
		{"<IsTruncated>true</IsTruncated>", OUTCOME_FAILED, ""},
		{"<IsTruncated>true</IsTruncated>"
		 "<NextContinuationToken></NextContinuationToken>",
		 OUTCOME_FAILED, ""},
		{"<IsTruncated>true</IsTruncated><Contents>"
		 "<NextContinuationToken>t</NextContinuationToken></Contents>",
		 OUTCOME_FAILED, ""},
		{"<IsTruncated>false</IsTruncated>", OUTCOME_OK, ""},
		{"<IsTruncated>false</IsTruncated>"
		 "<NextContinuationToken>t</NextContinuationToken>",
		 OUTCOME_OK, ""},
		{"", OUTCOME_FAILED, ""},
		{"<Contents><IsTruncated>false</IsTruncated></Contents>",
		 OUTCOME_FAILED, ""},
	};
	char text[1024];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), form, cases[i].says);
		CHECK_EQ(parse("", text), cases[i].outcome);
		if (cases[i].outcome != OUTCOME_OK)
			continue;
		CHECK_EQ(page.truncated, cases[i].next[0] != '\0');
		CHECK_STR(page.next, cases[i].next);
	}
}

/* A page that does not clearly say that it is the last one is not the last. */
static void test_truncated_is_true_or_false(void)
{
	static const char *const words[] = {
		"",    "tru",  "True", "TRUE", "yes",	"truefalse",
		"nil", "fals", "1",    "0",    "true,", "falsefalse"};
	char text[256];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		snprintf(text, sizeof(text),
			 "<ListBucketResult><IsTruncated>%s</IsTruncated>"
			 "<NextContinuationToken>t</NextContinuationToken>"
			 "</ListBucketResult>",
			 words[i]);
		CHECK_EQ(parse("", text), OUTCOME_FAILED);
	}
}

static void test_token_length(void)
{
	static char text[PAGE_SIZE];
	char token[2 * S3_TOKEN_MAX];

	for (size_t len = S3_TOKEN_MAX - 1; len < S3_TOKEN_MAX + 2000; len++) {
		memset(token, 't', len);
		token[len] = '\0';
		snprintf(text, sizeof(text),
			 "<ListBucketResult><IsTruncated>true</IsTruncated>"
			 "<NextContinuationToken>%s</NextContinuationToken>"
			 "</ListBucketResult>",
			 token);
		if (len < S3_TOKEN_MAX) {
			CHECK_EQ(parse("", text), OUTCOME_OK);
			CHECK_STR(page.next, token);
		} else {
			/* a cut token would be another place */
			CHECK_EQ(parse("", text), OUTCOME_FAILED);
		}
	}
}

static void test_cut_anywhere(void)
{
	for (size_t len = 0; len < sizeof(whole_page) - 1; len++)
		if (parse_bytes("cells/", whole_page, len) != OUTCOME_FAILED)
			CHECK_FAIL("a page cut at byte %zu is taken", len);
}

static void test_no_listing(void)
{
	static const char *const texts[] = {
		"",
		" ",
		"not XML",
		"<html><body>It works</body></html>",
		"<!doctype html><html></html>",
		"<Error><Code>SlowDown</Code></Error>",
		"<ListBucketResult/>",
		"<ListAllMyBucketsResult><IsTruncated>false</IsTruncated>"
		"</ListAllMyBucketsResult>",
		"<a><ListBucketResult><IsTruncated>false</IsTruncated>"
		"</ListBucketResult></a>",
		"<IsTruncated>false</IsTruncated>",
		"<ListBucketResult><IsTruncated>false</IsTruncated>"
		"</ListBucketResult><p/>",
		"<ListBucketResult><IsTruncated>false</IsTruncated>"
		"</ListBucketResult>more",
		"<ListBucketResult><IsTruncated>false</IsTruncated>"
		"</ListBucketResult><!--",
		"<ListBucketResult><IsTruncated>false</IsTruncated>"
		"</listbucketresult>",
		"<ListBucketResult><IsTruncated>false</IsTruncated>"
		"<Key>&nbsp;</Key></ListBucketResult>",
		"<ListBucketResult><IsTruncated>false</IsTruncated>"
		"<Key>\xff</Key></ListBucketResult>",
		"<ListBucketResult><IsTruncated>false</IsTruncated>"
		"<Key>&#0;</Key></ListBucketResult>",
		"<?xml version=\"1.0\" encoding=\"no-such\"?>"
		"<ListBucketResult><IsTruncated>false</IsTruncated>"
		"</ListBucketResult>",
	};
	static const char nul[] =
		"<ListBucketResult><IsTruncated>false</IsTruncated>\0"
		"</ListBucketResult>";

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (parse("", texts[i]) != OUTCOME_FAILED)
			CHECK_FAIL("taken for a listing: %s", texts[i]);
	CHECK_EQ(parse_bytes("", nul, sizeof(nul) - 1), OUTCOME_FAILED);
}

static void test_no_document_type(void)
{
	static const char *const types[] = {
		"<!DOCTYPE ListBucketResult>",
		"<!DOCTYPE ListBucketResult SYSTEM \"file:///dev/zero\">",
		"<!DOCTYPE ListBucketResult PUBLIC \"a\" "
		"\"http://localhost/\">",
		"<!DOCTYPE ListBucketResult [<!ENTITY a \"b\">]>",
		"<!DOCTYPE ListBucketResult ["
		"<!ENTITY % a SYSTEM \"file:///dev/zero\"> %a;]>",
		"<!DOCTYPE l [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;&a;\">"
		"<!ENTITY c \"&b;&b;&b;&b;\"><!ENTITY d \"&c;&c;&c;&c;\">]>",
	};
	char text[1024];
	struct s3_error error;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		snprintf(text, sizeof(text),
			 "%s<ListBucketResult><IsTruncated>false</IsTruncated>"
			 "</ListBucketResult>",
			 types[i]);
		CHECK_EQ(parse("", text), OUTCOME_FAILED);
		snprintf(text, sizeof(text),
			 "%s<Error><Code>SlowDown</Code></Error>", types[i]);
		s3_error_parse(&error, text, strlen(text));
		CHECK_STR(error.code, "");
	}
}

/* A document whose elements nest DEPTH deep. */
static enum outcome parse_depth(unsigned depth, const char *innermost)
{
	static char text[PAGE_SIZE];
	size_t len = (size_t)snprintf(text, sizeof(text),
				      "<ListBucketResult><IsTruncated>false"
				      "</IsTruncated>");

	for (unsigned i = 2; i < depth; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "<e>");
	len += (size_t)snprintf(text + len, sizeof(text) - len, "%s",
				innermost);
	for (unsigned i = 2; i < depth; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "</e>");
	len += (size_t)snprintf(text + len, sizeof(text) - len,
				"</ListBucketResult>");
	CHECK(len < sizeof(text));
	return parse_bytes("", text, len);
}

static void test_depth(void)
{
	for (unsigned depth = 2; depth <= 8; depth++)
		CHECK_EQ(parse_depth(depth, "<Key>text</Key>"), OUTCOME_OK);
	CHECK_EQ(parse_depth(9, "<Key>text</Key>"), OUTCOME_FAILED);
	CHECK_EQ(parse_depth(9, "<Key/>"), OUTCOME_FAILED);
	CHECK_EQ(parse_depth(9, "<Key/><Key/>text<Key/>"), OUTCOME_FAILED);
	CHECK_EQ(parse_depth(8000, "<Key/>"), OUTCOME_FAILED);
}

/* What is not looked at may be as long as it likes. */
static void test_huge_texts(void)
{
	static const char *const around[][2] = {
		{"<Contents><Owner><ID>", "</ID></Owner></Contents>"},
		{"<!--", "-->"},
		{"<Other a=\"", "\"/>"},
		{"<?other ", "?>"},
		{"", ""},
	};
	static char text[PAGE_SIZE], filler[PAGE_SIZE / 2];

	memset(filler, 'f', sizeof(filler) - 1);
	for (size_t i = 0; i < sizeof(around) / sizeof(around[0]); i++) {
		snprintf(text, sizeof(text),
			 "%s%s%s<Contents><Key>a</Key></Contents>",
			 around[i][0], filler, around[i][1]);
		CHECK_EQ(parse_around("", text), OUTCOME_OK);
		CHECK_EQ(page.count, 1);
		check_name(0, "a", false);
	}
}

/* In the order of the bucket's keys, in which a directory ends in a slash. */
static void test_order(void)
{
	CHECK_EQ(parse_around("c/", "<Contents><Key>c/%FF</Key></Contents>"
				    "<Contents><Key>c/a0</Key></Contents>"
				    "<Contents><Key>c/a</Key></Contents>"
				    "<Contents><Key>c/a-b</Key></Contents>"
				    "<Contents><Key>c/</Key></Contents>"
				    "<Contents><Key>c/Z</Key></Contents>"
				    "<CommonPrefixes><Prefix>c/a/</Prefix>"
				    "</CommonPrefixes>"
				    "<CommonPrefixes><Prefix>c/a-/</Prefix>"
				    "</CommonPrefixes>"
				    "<CommonPrefixes><Prefix>c//</Prefix>"
				    "</CommonPrefixes>"),
		 OUTCOME_OK);
	CHECK_EQ(page.count, 9);
	check_name(0, "", false);
	check_name(1, "", true);
	check_name(2, "Z", false);
	check_name(3, "a", false);
	check_name(4, "a-", true);
	check_name(5, "a-b", false);
	check_name(6, "a", true);
	check_name(7, "a0", false);
	check_name(8, "\xff", false);
}

static void test_many_names(void)
{
	static char content[PAGE_SIZE - 1024];
	size_t len = 0;

	for (unsigned i = 1000; i > 0; i--)
		len += (size_t)snprintf(content + len, sizeof(content) - len,
					"<Contents><Key>k/%04u</Key>"
					"</Contents>",
					i - 1);
	CHECK(len < sizeof(content));
	CHECK_EQ(parse_around("k/", content), OUTCOME_OK);
	CHECK_EQ(page.count, 1000);
	for (unsigned i = 0; i < 1000; i++)
		CHECK_EQ(strtol(page.names[i].name, NULL, 10), i);
}

/* --- Mutations ------------------------------------------------------------ */

static uint32_t random_state = 1;

static size_t random_below(size_t end)
{
	random_state = random_state * 1664525 + 1013904223;
	return (random_state >> 8) % end;
}

static size_t mutate(char *text, size_t len)
{
	static const char bytes[] = "<>/&;%+=\"'!?[]-x0 \n\0\xff\x80";
	size_t at = random_below(len);
	size_t span = 1 + random_below(40);

	if (span > len - at)
		span = len - at;
	switch (random_below(5)) {
	case 0:
		text[at] = bytes[random_below(sizeof(bytes) - 1)];
		break;
	case 1:
		text[at] = (char)(text[at] ^ (1 << random_below(8)));
		break;
	case 2: /* gone */
		memmove(text + at, text + at + span, len - at - span);
		len -= span;
		break;
	case 3: /* twice */
		memmove(text + at + span, text + at, len - at);
		len += span;
		break;
	default: /* over something else */
		memmove(text + random_below(len - span + 1), text + at, span);
		break;
	}
	return len;
}

/* Whatever came: a page that is taken makes sense. */
static void check_sense(void)
{
	CHECK_EQ(page.truncated, page.next[0] != '\0');
	CHECK(strlen(page.next) < sizeof(page.next));
	for (size_t i = 0; i < page.count; i++)
		CHECK(strlen(page.names[i].name) <= S3_KEY_MAX);
}

static void test_mutations(void)
{
	int rounds = getenv("CELLDFS_VALGRIND") ? 2000 : 100000;
	char text[sizeof(whole_page) + 400];
	int taken = 0;

	for (int round = 0; round < rounds; round++) {
		size_t len = sizeof(whole_page) - 1;
		size_t changes = 1 + random_below(8);
		enum outcome outcome;

		memcpy(text, whole_page, len);
		while (changes-- > 0 && len > 0)
			len = mutate(text, len);
		outcome = parse_bytes("cells/", text, len);
		if (outcome == OUTCOME_OK)
			check_sense();
		else
			CHECK_EQ(outcome, OUTCOME_FAILED);
		taken += outcome == OUTCOME_OK;
	}
	CHECK(taken > 0 && taken < rounds);
}

int main(void)
{
	RUN(test_page);
	RUN(test_fields_are_of_their_object);
	RUN(test_empty_page);
	RUN(test_encoding);
	RUN(test_nul_is_no_part_of_a_key);
	RUN(test_below_another_prefix);
	RUN(test_directories);
	RUN(test_delimiter_is_ignored);
	RUN(test_long_keys);
	RUN(test_truncated);
	RUN(test_token_length);
	RUN(test_cut_anywhere);
	RUN(test_no_listing);
	RUN(test_no_document_type);
	RUN(test_depth);
	RUN(test_huge_texts);
	RUN(test_order);
	RUN(test_many_names);
	RUN(test_mutations);
	RUN(test_truncated_is_true_or_false);
	s3_page_release(&page);
	return 0;
}
