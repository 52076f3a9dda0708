<?php

// WordPress without a web server. `main.php ROOT install` runs its installer and writes some content. `main.php ROOT use` writes
// more and prints TABLE COLUMN ID for each id that WordPress was told.

const NAMES = ["it's \"one\"", 'back\\slash', 'é ☃ 😀', "a\nb\tc", '-- /* ; */'];

define('ABSPATH', "$argv[1]/");
define('DB_HOST', getenv('ROWSTAMP_HOST') . ':' . getenv('ROWSTAMP_PORT'));
define('DB_NAME', getenv('ROWSTAMP_DATABASE'));
define('DB_USER', getenv('ROWSTAMP_USER'));
define('DB_PASSWORD', getenv('ROWSTAMP_PASSWORD'));
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
define('DISABLE_WP_CRON', true);
define('WP_INSTALLING', $argv[2] === 'install');
$_SERVER += ['HTTP_HOST' => 'localhost', 'REQUEST_METHOD' => 'GET', 'SERVER_PROTOCOL' => 'HTTP/1.1'];
$table_prefix = 'wp_';

// The installer would send a mail with this.
function wp_new_blog_notification(): void
{
}

// wp-config.php would end with this.
require ABSPATH . 'wp-settings.php';

// Nothing is asked of the network.
add_filter('pre_http_request', fn () => new WP_Error('none', 'no network'));

/** The id that WordPress was told. */
function told(string $table, string $column, int|WP_Error|false $id): int
{
    if (!is_int($id) || $id <= 0) {
        fwrite(STDERR, "no row of $table: " . ($id instanceof WP_Error ? $id->get_error_message() : $GLOBALS['wpdb']->last_error) . "\n");
        exit(1);
    }
    if (!WP_INSTALLING) {
        echo "$table $column $id\n";
    }
    return $id;
}

/** A row or more for most tables, for each of the names. */
function write(string $word): void
{
    foreach (NAMES as $number => $name) {
        $login = "$word$number";
        $user = told('wp_users', 'ID', wp_insert_user(['user_login' => $login, 'user_pass' => 'secret', 'display_name' => $name]));
        $post = told('wp_posts', 'ID', wp_insert_post(wp_slash([
            'post_title' => "$word $name",
            'post_content' => str_repeat($name, 1000),
            'post_status' => 'publish',
            'post_author' => $user,
        ]), true));
        told('wp_postmeta', 'meta_id', add_post_meta($post, $word, ['a' => $name, 'b' => [1.5, null, true]]));
        told('wp_comments', 'comment_ID', wp_insert_comment(wp_slash(['comment_post_ID' => $post, 'comment_content' => $name])));
        $term = wp_insert_term("$word $number", 'category', ['description' => $name]);
        told('wp_terms', 'term_id', is_wp_error($term) ? $term : $term['term_id']);
        wp_set_post_categories($post, [$term['term_id']]);
        wp_update_post(['ID' => $post, 'post_excerpt' => 'a revision']);
        update_option("rowstamp_$login", NAMES);
    }
}

if (WP_INSTALLING) {
    require ABSPATH . 'wp-admin/includes/upgrade.php';
    wp_install('Rowstamp', 'admin', 'admin@example.com', true, '', 'a long secret', '');
    write('first');
} else {
    write('second');
}
