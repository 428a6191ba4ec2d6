<?php
// An application with sessions and uploads: who signs in may leave files, and sees what it has left.
session_start(['cookie_httponly' => true, 'use_strict_mode' => true]);
header('Content-Type: text/plain');

$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$post = $_SERVER['REQUEST_METHOD'] === 'POST';

if ($post && $path === '/sign-in') {
    session_regenerate_id(true);
    $_SESSION['name'] = $_POST['name'];
    $_SESSION['files'] = [];
    header('Location: /files', true, 303);
    exit;
}
if (!isset($_SESSION['name'])) {
    http_response_code(403);
    exit('sign in first');
}
if ($post && $path === '/sign-out') {
    session_destroy();
    exit('signed out');
}
if ($post && $path === '/files') {
    $file = $_FILES['file'] ?? null;
    if ($file === null || $file['error'] !== UPLOAD_ERR_OK) {
        http_response_code(400);
        exit('error ' . ($file['error'] ?? 'none'));
    }
    move_uploaded_file($file['tmp_name'], __DIR__ . '/uploads/' . basename($file['name']));
    $_SESSION['files'][] = basename($file['name']) . ' ' . $file['size'];
    header('Location: /files', true, 303);
    exit;
}
echo $_SESSION['name'], ': ', implode(', ', $_SESSION['files']);
