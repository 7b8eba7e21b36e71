USE mysql;
FLUSH PRIVILEGES;
CREATE DATABASE footprint CHARACTER SET utf8mb4;
CREATE TABLE footprint.events (n BIGINT PRIMARY KEY, at DATETIME(6) NOT NULL) ENGINE=InnoDB;
CREATE USER 'writer'@'%' IDENTIFIED BY '@PASSWORD@';
GRANT SELECT, INSERT ON footprint.events TO 'writer'@'%';
CREATE USER 'footprint-api'@'localhost' IDENTIFIED VIA unix_socket;
GRANT SELECT ON footprint.events TO 'footprint-api'@'localhost';
FLUSH PRIVILEGES;
